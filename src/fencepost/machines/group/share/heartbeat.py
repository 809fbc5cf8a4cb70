"""ShareGroupHeartbeat: members join, stay, change their subscription and leave (KIP-932).

Theory of operation
-------------------
One heartbeat is one decision, whose records are one batch or nothing, and whose answer leaves when
they are committed:

1. the group and the member are found or made, and the member's epoch is checked;
2. the group epoch rises, at most by one, if subscriptions or topics have changed, or if a partition
   that has a state by now is in no target;
3. the target assignment is computed if the epoch is ahead of it and the last one is old enough;
4. the member is given its target at once: members share partitions, and none waits for another;
5. partitions of subscribed topics without a state are noted as initializing, and share coordinators
   are asked to begin it (`state.InitializeStates`), for which the answer does not wait;
6. the member's session begins again.

A refusal anywhere (`RefusedError`) undoes all of it.
"""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.machines.group.assignment_interval import may_assign
from fencepost.machines.group.caller import Caller
from fencepost.machines.group.found_topics import found_topics
from fencepost.machines.group.metadata_hash import group_metadata_hash
from fencepost.machines.group.next_epoch import next_epoch
from fencepost.machines.group.refused import RefusedError
from fencepost.machines.group.shard import Decision, Shard
from fencepost.machines.group.share.assignor import (
    Partitions,
    ShareMemberSpec,
    assign_simple,
)
from fencepost.machines.group.share.group import PARTITION_BYTES, ShareGroup
from fencepost.machines.group.share.member import (
    JOINS,
    LEAVES,
    Progress,
    Subscription,
    partitions_to,
)
from fencepost.machines.group.share.records import (
    epoch_record,
    member_record,
    member_tombstones,
    progress_record,
    state_record,
    target_epoch_record,
    target_record,
)
from fencepost.machines.group.share.state import InitializeStates, NamedPartitions
from fencepost.machines.group.share.timers import initializing_timer, session_timer
from fencepost.wire.api.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

REJOIN = "The member must abandon all its partitions and rejoin."


class Heartbeats:
    """Decides about heartbeats; shares the shard's state with the rest of the coordinator."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, caller: Caller, wall_ms: int
    ) -> Decision:
        """ShareGroupHeartbeat v1; replies ShareGroupHeartbeatResponse."""
        decision = Decision()
        try:
            if request.member_epoch == LEAVES:
                response = self._leave(decision, request)
            else:
                response = self._stay(decision, request, caller, wall_ms)
        except RefusedError as refused:
            decision = Decision()
            response = ShareGroupHeartbeatResponse(
                error_code=int(refused.error), error_message=refused.message
            )
        decision.reply(caller.token, response)
        return decision

    # Joining and staying

    def _stay(
        self,
        decision: Decision,
        request: ShareGroupHeartbeatRequest,
        caller: Caller,
        wall_ms: int,
    ) -> ShareGroupHeartbeatResponse:
        group, member_id = self._group_of(request), request.member_id
        known, before = group.members.get(member_id), group.progress_of(member_id)
        self._check(group, request)
        said = _said(known, request, caller)
        if said != known:
            self._admit(group, member_id, known, said)
            decision.records.append(member_record(group.group_id, member_id, said))
        names_before = frozenset() if known is None else known.topic_names
        names = _subscribed(group, names_before, said.topic_names)
        is_changed = said.topic_names != names_before
        epoch = self._raise_epoch(decision, group, names, is_changed=is_changed)
        target_epoch, target = self._target(decision, group, member_id, said, epoch, wall_ms)
        after = before
        if target_epoch != before.epoch or epoch != group.epoch:
            after = self._told(said, before, target_epoch, target)
            if after != before:
                decision.records.append(progress_record(group.group_id, member_id, after))
        self._initialize(decision, group, names, epoch)
        settings = self._shard.share_settings(group.group_id)
        session = session_timer(group.group_id, member_id)
        decision.set_timer(session, settings.session_timeout_ms)
        response = ShareGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        is_full = request.member_epoch == JOINS or request.subscribed_topic_names is not None
        if is_full or after.assigned != before.assigned:
            topics = partitions_to(TopicPartitions, after.assigned)
            response.assignment = Assignment(topic_partitions=topics)
        return response

    def _group_of(self, request: ShareGroupHeartbeatRequest) -> ShareGroup:
        """The group; a member that joins makes it. RefusedError."""
        group_id = request.group_id
        found = self._shard.groups.get(group_id)
        if isinstance(found, ShareGroup):
            return found
        if found is not None:
            message = f"Group {group_id} is not a share group."
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, message)
        if request.member_epoch != JOINS:
            message = f"Share group {group_id} not found."
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, message)
        return ShareGroup(group_id)

    def _check(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> None:
        """Whether the member may be in the group, in the epoch that it names. RefusedError."""
        member_id, epoch = request.member_id, request.member_epoch
        max_size = self._shard.config.share_max_size
        if member_id not in group.members:
            if group.member_count >= max_size:
                raise RefusedError(
                    ErrorCode.GROUP_MAX_SIZE_REACHED,
                    f"The share group has reached its maximum capacity of {max_size} members.",
                )
            if epoch != JOINS:
                raise _unknown_member(group, member_id)
        known = group.progress_of(member_id)
        if epoch == JOINS or epoch == known.epoch:
            return
        if epoch > known.epoch:
            raise RefusedError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The share group member has a greater member epoch ({epoch}) than the one known "
                f"by the group coordinator ({known.epoch}). {REJOIN}",
            )
        if epoch != known.previous_epoch:
            raise RefusedError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The share group member has a smaller member epoch ({epoch}) than the one known "
                f"by the group coordinator ({known.epoch}), and it does not match the previous "
                f"member epoch ({known.previous_epoch}). {REJOIN}",
            )

    def _admit(
        self, group: ShareGroup, member_id: str, known: Subscription | None, said: Subscription
    ) -> None:
        """What the member says, and is to have for it, has its place in memory. RefusedError."""
        shard = self._shard
        more_bytes = said.size_bytes(member_id)
        if known is not None:
            more_bytes -= known.size_bytes(member_id)
        new_topics = found_topics(shard.image, said.topic_names - group.topic_users.keys())
        more_bytes += PARTITION_BYTES * sum(len(topic.partitions) for topic in new_topics)
        if more_bytes > 0 and group.counted_bytes + more_bytes > shard.config.max_bytes:
            raise RefusedError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "The group has as much memory as it may have."
            )
        if not shard.memory.admits(more_bytes):
            raise RefusedError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "All groups have what memory there is."
            )

    def _raise_epoch(
        self, decision: Decision, group: ShareGroup, names: set[str], *, is_changed: bool
    ) -> int:
        """The group epoch from now on; `names` are the topics that members subscribe to by now."""
        metadata_hash = group_metadata_hash(self._shard.image, names)
        is_changed |= metadata_hash != group.metadata_hash
        if not is_changed and group.target_epoch >= group.epoch:
            is_changed = self._is_any_untargeted(group)
        if not is_changed:
            return group.epoch
        decision.records.append(
            epoch_record(group.group_id, next_epoch(group.epoch), metadata_hash)
        )
        return next_epoch(group.epoch)

    def _is_any_untargeted(self, group: ShareGroup) -> bool:
        """Whether members could share a partition that is in no target yet."""
        by_name = self._shard.image.topics_by_name
        for topic_id, (name, partitions) in group.states.initialized.items():
            topic = by_name.get(name) if name in group.topic_users else None
            if topic is None or topic.topic_id != topic_id:
                continue
            if group.targeted.get(topic_id, {}).keys() != partitions:
                return True
        return False

    # The target assignment

    def _target(
        self,
        decision: Decision,
        group: ShareGroup,
        member_id: str,
        said: Subscription,
        epoch: int,
        wall_ms: int,
    ) -> tuple[int, Partitions]:
        """The target of the member and its epoch: of before, or computed now."""
        group_id = group.group_id
        interval_ms = self._shard.share_settings(group_id).assignment_interval_ms
        may_compute = may_assign(group.target_timestamp_ms, interval_ms, wall_ms)
        if group.target_epoch >= epoch or not may_compute:
            return group.target_epoch, group.target_of(member_id)
        targets = self._assign(group, {**group.members, member_id: said})
        for one, target in targets.items():
            if one not in group.target or target != group.target[one]:
                decision.records.append(target_record(group_id, one, target))
        decision.records.append(target_epoch_record(group_id, epoch, wall_ms))
        return epoch, targets[member_id]

    def _assign(
        self, group: ShareGroup, members: dict[str, Subscription]
    ) -> dict[str, dict[Uuid, frozenset[int]]]:
        shard = self._shard
        names = set().union(*(said.topic_names for said in members.values()))
        topics = {topic.name: topic for topic in found_topics(shard.image, names)}
        assignable = {}
        for topic in topics.values():
            initialized = group.states.known(topic.topic_id, with_initializing=False)
            if initialized:
                assignable[topic.topic_id] = initialized
        specs = {
            one: ShareMemberSpec(
                frozenset(topics[name].topic_id for name in said.topic_names if name in topics),
                group.target_of(one),
            )
            for one, said in members.items()
        }
        is_homogeneous = len({said.topic_names for said in members.values()}) == 1
        return assign_simple(specs, assignable, is_homogeneous=is_homogeneous)

    def _told(
        self, said: Subscription, before: Progress, target_epoch: int, target: Partitions
    ) -> Progress:
        """What the member is told: its target, of the topics that it subscribes to by now."""
        topic_ids = {topic.topic_id for topic in found_topics(self._shard.image, said.topic_names)}
        assigned = {one: indexes for one, indexes in target.items() if one in topic_ids}
        if target_epoch == before.epoch:
            return replace(before, assigned=assigned)
        return Progress(target_epoch, before.epoch, assigned)

    # The state of partitions

    def _initialize(
        self, decision: Decision, group: ShareGroup, names: set[str], epoch: int
    ) -> None:
        """Have the state of subscribed partitions begun that has not been, or has been for long."""
        states, begun, starts = group.states, {}, {}
        for topic in found_topics(self._shard.image, names):
            topic_id, count = topic.topic_id, len(topic.partitions)
            known = states.known(topic_id, with_initializing=not group.is_initializing_late)
            if len(known) < count:
                missing = frozenset(range(count)) - known
                begun[topic_id] = NamedPartitions(topic.name, missing)
                starts[topic_id] = dict.fromkeys(sorted(missing), states.start_offset(topic_id))
        if begun:
            initialize(self._shard, decision, group, begun)
            decision.sends.append(InitializeStates(group.group_id, epoch, starts))

    # Leaving

    def _leave(
        self, decision: Decision, request: ShareGroupHeartbeatRequest
    ) -> ShareGroupHeartbeatResponse:
        group = share_group(self._shard, request.group_id)
        if request.member_id not in group.members:
            raise _unknown_member(group, request.member_id)
        remove_member(self._shard, decision, group, request.member_id)
        return ShareGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )


def initialize(
    shard: Shard,
    decision: Decision,
    group: ShareGroup,
    begun: dict[Uuid, NamedPartitions],
) -> None:
    """Note that the state of the partitions is being begun, and how long that may take."""
    decision.records.append(state_record(group.group_id, group.states.begin(begun)))
    retry_ms = shard.config.share_initialize_retry_interval_ms
    decision.set_timer(initializing_timer(group.group_id), retry_ms)


def share_group(shard: Shard, group_id: str) -> ShareGroup:
    """The group of that id. RefusedError if there is none, or one of another type."""
    found = shard.groups.get(group_id)
    if found is None:
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(found, ShareGroup):
        message = f"Group {group_id} is not a share group."
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, message)
    return found


def remove_member(shard: Shard, decision: Decision, group: ShareGroup, member_id: str) -> None:
    """Take a member out of its group: the group epoch rises.

    With the last member the target is of the new epoch at once (KAFKA-20442), and the next member
    is assigned without delay.
    """
    group_id = group.group_id
    decision.records += member_tombstones(group_id, member_id)
    names = _subscribed(group, group.members[member_id].topic_names, frozenset())
    metadata_hash = group_metadata_hash(shard.image, names)
    epoch = next_epoch(group.epoch)
    decision.records.append(epoch_record(group_id, epoch, metadata_hash))
    if group.member_count == 1:
        decision.records.append(target_epoch_record(group_id, epoch, 0))
    decision.set_timer(session_timer(group_id, member_id), None)


def _said(
    known: Subscription | None, request: ShareGroupHeartbeatRequest, caller: Caller
) -> Subscription:
    """What the member says of itself: what the request leaves out is as before."""
    said = replace(
        Subscription() if known is None else known,
        client_id=caller.client_id,
        client_host=caller.client_host,
    )
    if request.rack_id is not None:
        said = replace(said, rack_id=request.rack_id)
    if request.subscribed_topic_names is not None:
        said = replace(said, topic_names=frozenset(request.subscribed_topic_names))
    return said


def _subscribed(group: ShareGroup, before: frozenset[str], after: frozenset[str]) -> set[str]:
    """The topics of all members, of which one subscribes to those of `after` from now on."""
    users = group.topic_users
    return {name for name, count in users.items() if count > (name in before)} | after


def _unknown_member(group: ShareGroup, member_id: str) -> RefusedError:
    message = f"Member {member_id} is not a member of group {group.group_id}."
    return RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, message)
