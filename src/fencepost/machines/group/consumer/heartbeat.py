"""ConsumerGroupHeartbeat: members join, stay, change their subscription and leave (KIP-848).

Theory of operation
-------------------
One heartbeat is one decision, whose records are one batch or nothing, and whose answer leaves when
they are committed. It goes through these steps, each of which may find that nothing is to be done;
in a group at rest all do:

1. the group and the member are found or made, and the member's epoch is checked (`joining`);
2. what the member says of itself is compared with what is known of it;
3. regular expressions are checked, and looked up elsewhere if need be (`regex_refresh`);
4. the group epoch rises, at most by one, if subscriptions or topics have changed;
5. the target assignment is computed if the epoch is ahead of it (`target`);
6. the member goes a step towards its target (`reconciliation`);
7. its session begins again.

A refusal anywhere (`RefusedError`) undoes all of it. Leaving, and what timers remove, is in
`leaving`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.consumer.group import ConsumerGroup, NameSet, Note
from fencepost.machines.group.consumer.joining import Entered, enter
from fencepost.machines.group.consumer.leaving import leave
from fencepost.machines.group.consumer.member import (
    JOINS,
    PARTITION_BYTES,
    MemberState,
    Partitions,
    Progress,
    Subscription,
)
from fencepost.machines.group.consumer.reconciliation import Heard, reconcile
from fencepost.machines.group.consumer.records import (
    epoch_records,
    member_record,
    progress_record,
)
from fencepost.machines.group.consumer.regex_refresh import (
    MayDescribe,
    RegexChange,
    RegexRefresh,
)
from fencepost.machines.group.consumer.target import (
    Changed,
    Targets,
    effective_assignor,
    existing_topics,
    subscribed_names,
)
from fencepost.machines.group.consumer.timers import rebalance_timer, session_timer
from fencepost.machines.group.metadata_hash import group_metadata_hash
from fencepost.machines.group.next_epoch import next_epoch
from fencepost.machines.group.refused import RefusedError
from fencepost.machines.group.shard import Decision, Shard
from fencepost.wire.api.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

NEW_PARTITION_BYTES: Final = 3 * PARTITION_BYTES
"""For a partition of a topic that the group has not subscribed to yet: in the target, with the
member that has it, and among those held."""


class Heartbeats:
    """Decides about heartbeats; shares the shard's state with the rest of the coordinator."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._targets = Targets(shard)
        self._regexes = RegexRefresh(shard)

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        may_describe: MayDescribe,
        wall_ms: int,
    ) -> Decision:
        """ConsumerGroupHeartbeat v0-1; replies ConsumerGroupHeartbeatResponse.

        `may_describe` says which topics the client may see, of those that an expression matches.
        """
        decision = Decision()
        try:
            self._check_assignor(request.server_assignor)
            if request.member_epoch < JOINS:
                response = leave(self._shard, decision, request, wall_ms)
            else:
                response = self._stay(decision, request, caller, may_describe, wall_ms)
        except RefusedError as refused:
            decision = Decision()
            response = ConsumerGroupHeartbeatResponse(
                error_code=int(refused.error), error_message=refused.message
            )
        decision.reply(caller.token, response)
        return decision

    def _check_assignor(self, name: str | None) -> None:
        offered = self._shard.config.consumer_assignors
        if name is not None and name not in offered:
            raise RefusedError(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {name} is not supported. Supported assignors: "
                f"{', '.join(offered)}.",
            )

    def _stay(
        self,
        decision: Decision,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        may_describe: MayDescribe,
        wall_ms: int,
    ) -> ConsumerGroupHeartbeatResponse:
        owned = _owned(request.topic_partitions)
        entered = enter(self._shard, decision, request, owned, caller)
        group, member_id, before = entered.group, entered.member_id, entered.progress
        said = _said(entered.known, request, caller)
        after = before
        if said is not entered.known or entered.replaced_id or not _is_at_rest(group, before):
            after = self.advance(decision, entered, said, owned, may_describe, wall_ms)
        settings = self._shard.consumer_settings(group.group_id)
        session = session_timer(group.group_id, member_id)
        decision.set_timer(session, settings.session_timeout_ms)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        if _is_full(request) or (after is not before and _indexes(after) != _indexes(before)):
            response.assignment = _assignment(after)
        return response

    def advance(
        self,
        decision: Decision,
        entered: Entered,
        said: Subscription,
        owned: Partitions | None,
        may_describe: MayDescribe | None,
        wall_ms: int,
    ) -> Progress:
        """All that follows from what a member says of itself and owns. RefusedError.

        See `subscribe`.
        """
        epoch, is_other = self.subscribe(decision, entered, said, may_describe, wall_ms)
        group, changed = entered.group, changed_by(entered, said)
        target_epoch, target = self._targets.update(decision, group, changed, epoch, wall_ms)
        heard = Heard(owned, is_other)
        return self.reconcile(decision, entered, said, target_epoch, target, heard)

    def subscribe(
        self,
        decision: Decision,
        entered: Entered,
        said: Subscription,
        may_describe: MayDescribe | None,
        wall_ms: int,
    ) -> tuple[int, bool]:
        """Take down what a member says of itself. RefusedError.

        Returned is the group epoch, which may rise, and whether the member subscribes to something
        else than before. Without `may_describe` no topics are looked up.
        """
        group, known, changed = entered.group, entered.known, changed_by(entered, said)
        if said is not known and said != known:
            self._admit(group, changed)
            decision.records.append(member_record(group.group_id, entered.member_id, said))
        regex_change = self._regexes.update(decision, group, changed, may_describe, wall_ms)
        names_changed = said.topic_names != (frozenset() if known is None else known.topic_names)
        is_changed = names_changed or regex_change is RegexChange.RESOLVED
        epoch = self._raise_epoch(decision, group, changed, is_changed)
        return epoch, names_changed or regex_change is not RegexChange.NONE

    def _admit(self, group: ConsumerGroup, changed: Changed) -> None:
        """What the member says, and is to have for it, has its place in memory. RefusedError."""
        shard, known, said = self._shard, changed.before, changed.after
        assert said is not None
        more_bytes = said.size_bytes(changed.member_id)
        if known is not None:
            more_bytes -= known.size_bytes(changed.replaced_id or changed.member_id)
        if known is not None and said.topic_names != known.topic_names:
            left = group.name_sets[known.topic_names]
            more_bytes -= left.size_bytes if left.users == 1 else 0
        if said.topic_names not in group.name_sets:
            more_bytes += NameSet(said.topic_names, 0).size_bytes
            topics = existing_topics(shard.image, said.topic_names - group.topic_users.keys())
            more_bytes += NEW_PARTITION_BYTES * sum(topics.values())
        if more_bytes > 0 and group.counted_bytes + more_bytes > shard.config.max_bytes:
            raise RefusedError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "The group has as much memory as it may have."
            )
        if not shard.memory.admits(more_bytes):
            raise RefusedError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "All groups have what memory there is."
            )

    def _raise_epoch(
        self, decision: Decision, group: ConsumerGroup, changed: Changed, is_changed: bool
    ) -> int:
        """The group epoch, one higher if subscriptions, the assignor or topics have changed."""
        default = self._shard.config.consumer_assignors[0]
        said, known = changed.after, changed.before
        if (said and said.server_assignor) != (known and known.server_assignor):
            before = effective_assignor(group, default)
            is_changed |= before != effective_assignor(group, default, changed)
        if not is_changed and not group.is_check_due:
            return group.epoch
        names = subscribed_names(group, changed)
        metadata_hash = group_metadata_hash(self._shard.image, names)
        if group.is_check_due:
            decision.changes.append(Note(group.group_id, "is_check_due", False))
        if not is_changed and metadata_hash == group.metadata_hash:
            return group.epoch
        decision.records += epoch_records(group, metadata_hash)
        return next_epoch(group.epoch)

    def reconcile(
        self,
        decision: Decision,
        entered: Entered,
        said: Subscription,
        target_epoch: int,
        target: Partitions,
        heard: Heard,
    ) -> Progress:
        """The member's next step, with its record and the timer of what it has to give up.

        Members that speak the classic protocol are given time to join and to sync instead.
        """
        group, member_id, before = entered.group, entered.member_id, entered.progress
        if before.is_reconciled_to(target_epoch) and not heard.subscription_changed:
            return before
        image = self._shard.image
        subscribed = existing_topics(image, group.topic_names_of(said)).keys()
        holders, copied = group.holders, before if entered.replaced_id else None

        def is_free(topic_id: Uuid, index: int) -> bool:
            if index not in holders.get(topic_id, ()):
                return True
            return copied is not None and copied.holds_since(topic_id, index) is not None

        after = reconcile(before, target, target_epoch, subscribed, is_free, heard)
        if after is before:
            return before
        decision.records.append(progress_record(group.group_id, member_id, after))
        timer = rebalance_timer(group.group_id, member_id)
        if after.state is MemberState.UNREVOKED_PARTITIONS and said.classic is None:
            decision.set_timer(timer, max(said.rebalance_timeout_ms, 0))
        elif before.state is MemberState.UNREVOKED_PARTITIONS:
            decision.set_timer(timer, None)
        return after


def changed_by(entered: Entered, said: Subscription) -> Changed:
    """The member that has entered, before and after what it says."""
    return Changed(entered.member_id, entered.known, said, entered.replaced_id)


def _is_at_rest(group: ConsumerGroup, progress: Progress) -> bool:
    """Whether a heartbeat changes nothing, if the member says nothing new."""
    return (
        not group.is_check_due
        and not group.regex_users
        and group.epoch <= group.target_epoch
        and progress.is_reconciled_to(group.target_epoch)
    )


def _says_nothing(
    known: Subscription, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> bool:
    """Whether the request leaves out all that it may leave out, from the same client."""
    return (
        request.rebalance_timeout_ms == -1
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
        and request.instance_id in (None, known.instance_id)
        and known.classic is None
        and known.client_id == caller.client_id
        and known.client_host == caller.client_host
    )


def _said(
    known: Subscription | None, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> Subscription:
    """What the member says of itself: what the request leaves out is as before."""
    if known is not None and _says_nothing(known, request, caller):
        return known
    said = Subscription() if known is None else known
    changes: dict[str, object] = {
        "client_id": caller.client_id,
        "client_host": caller.client_host,
        "classic": None,
    }
    if request.instance_id is not None:
        changes["instance_id"] = request.instance_id
    if request.rack_id is not None:
        changes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None:
        changes["server_assignor"] = request.server_assignor
    if request.subscribed_topic_names is not None:
        changes["topic_names"] = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        changes["regex"] = request.subscribed_topic_regex
    return replace(said, **changes)


def _owned(topics: Iterable[TopicPartitions] | None) -> Partitions | None:
    """The partitions that the member says it owns, by topic."""
    if topics is None:
        return None
    owned: dict[Uuid, frozenset[int]] = {}
    for topic in topics:
        if topic.partitions:
            owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()).union(topic.partitions)
    return owned


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether it says everything: it joins, or an answer may be lost, so it is told everything."""
    subscribes = (
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    )
    is_whole = request.rebalance_timeout_ms != -1 and subscribes
    return request.member_epoch == JOINS or (is_whole and request.topic_partitions is not None)


def _indexes(progress: Progress) -> dict[Uuid, frozenset[int]]:
    return {topic_id: frozenset(epochs) for topic_id, epochs in progress.assigned.items()}


def _assignment(progress: Progress) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(epochs))
            for topic_id, epochs in sorted(progress.assigned.items())
        ]
    )
