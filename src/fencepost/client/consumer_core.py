"""What a consumer does, without I/O: positions, membership of a group, offsets to be committed.

`Consumer` and `AsyncConsumer` are its faces. What takes requests is a conversation here
(`taking_part`, `reading`, `committing`, `leaving`); the rest is plain methods.

A consumer subscribes to topics, as a member of the group `group.id`, or is assigned partitions by
its application. Reading begins where the group has committed; where it has committed nothing, or
what it has is not in the log any more, `auto.offset.reset` says where. Rebalances are eager:
whatever was assigned is given up first, and positions come from the group's offsets again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, Final

from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation, Pause, Tell
from fencepost.client.errors import BrokerError, ClientError, ConfigError, OffsetOutOfRange
from fencepost.client.fetch_core import FetchCore, Fetched, FetchPosition
from fencepost.client.group_offsets import reading_offsets, writing_offsets
from fencepost.client.membership import Membership, MembershipConfig, State
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.offsets import EARLIEST, LATEST, listing_offsets
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.client.retry import Deadline
from fencepost.wire.api.leave_group import LeaveGroupRequest
from fencepost.wire.errors import ErrorCode, is_retriable

log = logging.getLogger("fencepost.client")

JOIN_MARGIN_MS: Final = 5_000
"""Beyond the rebalance timeout, for which the coordinator may hold a JoinGroup."""
LEAVE_TIMEOUT_MS: Final = 5_000
"""For leaving; the session times out by itself."""
_RESETS: Final = {"earliest": EARLIEST, "latest": LATEST}


class ConsumerRebalanceListener:
    """What an application wants to do when its partitions change; to be overridden.

    With an AsyncConsumer the methods may be coroutines. `poll` must not be called in them.
    """

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> Any:
        """These are about to be given up; offsets can be committed still."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> Any:
        """These will be read; `seek` says from where, if not from the committed offset."""

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> Any:
        """These may be read by others already: the group has gone on without this member."""


class ConsumerCore:
    """See the module. One thread, or one event loop."""

    stores_positions: ClassVar[bool]
    """Whether a position counts as stored when it moves; then nothing is committed but by `commit`,
    because what was handed out need not be dealt with. Otherwise `store` says what is."""
    waits_apart: ClassVar[bool]
    """Whether the coordinator is asked over a connection that nothing else uses."""

    def __init__(self, view: ClusterView[Any], fetch: FetchCore) -> None:
        view.config.check()
        self.config = view.config
        self.positions: dict[TopicPartition, FetchPosition] = {}
        """Where each assigned partition is read on."""
        self.rebalances = 0
        """How often partitions were assigned, to notice a new assignment by."""
        self._view = view
        self._fetch = fetch
        self._membership: Membership | None = None
        self._metadata: ConsumerGroupMetadata | None = None
        self._listener = ConsumerRebalanceListener()
        self._by_hand: tuple[TopicPartition, ...] = ()
        # Assigned and without a position: where to begin, None for the committed offset.
        self._unplaced: dict[TopicPartition, int | None] = {}
        self._paused: set[TopicPartition] = set()
        self._stored: dict[TopicPartition, CommittedOffset] = {}

    # -- what is read ----------------------------------------------------------------------------

    def _subscribe(
        self, topics: Iterable[str], listener: ConsumerRebalanceListener | None = None
    ) -> None:
        """Read these topics from now on, as a member of the group. ConfigError without `group.id`,
        ClientError when partitions were assigned by hand."""
        config = self.config
        if config.group_id is None:
            raise ConfigError("group.id", None, "a member of a group needs one")
        if self._by_hand:
            raise ClientError("partitions are assigned by hand: unsubscribe first")
        wanted = tuple(sorted(set(topics)))
        self._listener = listener or ConsumerRebalanceListener()
        if self._membership is not None:
            self._membership.subscribe(wanted, _now_ms())
            return
        self._metadata = None
        self._membership = Membership(
            MembershipConfig(
                config.group_id,
                wanted,
                config.session_timeout_ms,
                config.max_poll_interval_ms,
                config.heartbeat_interval_ms,
                config.retry_backoff_ms,
                config.group_instance_id,
                config.assignors,
            )
        )

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from now on; the group, if there is one, only keeps offsets."""
        if self._membership is not None:
            raise ClientError("the consumer is subscribed to topics: unsubscribe first")
        self._by_hand = tuple(TopicPartition(*one) for one in dict.fromkeys(partitions))
        kept = {at: where for at, where in self.positions.items() if at in self._by_hand}
        self._forget_partitions()
        self.positions = kept
        self._unplaced = {one: None for one in self._by_hand if one not in kept}

    @property
    def _assigned(self) -> tuple[TopicPartition, ...]:
        return self._by_hand if self._membership is None else self._membership.assignment

    def consumer_group_metadata(self) -> ConsumerGroupMetadata:
        """Who this member was when its partitions were assigned, for `send_offsets_to_transaction`
        of a producer: offsets that a transaction commits need no `commit`.

        It stays so until the next assignment, also when the group has put this member out: without
        member and generation the coordinator would take offsets from anybody. ConfigError without
        `group.id`.
        """
        return self._metadata or ConsumerGroupMetadata(self._group())

    def store(self, partition: TopicPartition, next_offset: int, leader_epoch: int = -1) -> None:
        """Note that everything before `next_offset` is dealt with, for the next commit.
        `leader_epoch` is that of the last record, -1 if unknown."""
        if partition in self.positions:
            self._stored[partition] = CommittedOffset(next_offset, leader_epoch, "")

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Read on at `offset`. ClientError for a partition that is not assigned or an offset below
        0; `leader_epoch` is that of the record before, if known (KIP-320)."""
        self._require_assigned(partition)
        if offset < 0:
            raise ClientError(f"offset {offset} cannot be read", topic=partition.topic)
        self._unplaced.pop(partition, None)
        self._move(partition, FetchPosition(offset, leader_epoch))

    def _seek_to_committed(self, partitions: Collection[TopicPartition]) -> None:
        self._group()
        for partition in partitions:
            self._require_assigned(partition)
        for partition in partitions or self._assigned:
            self.positions.pop(partition, None)
            self._stored.pop(partition, None)
            self._unplaced[partition] = None

    def pause(self, *partitions: TopicPartition) -> None:
        """Read nothing of these before `resume`, or before they are assigned again."""
        for partition in partitions:
            self._require_assigned(partition)
        self._paused.update(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Read these again."""
        self._paused.difference_update(partitions)

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(self._paused)

    def _require_assigned(self, partition: TopicPartition) -> None:
        if partition not in self._assigned:
            topic, number = partition
            raise ClientError("not assigned to this consumer", topic=topic, partition=number)

    def _group(self) -> str:
        if self.config.group_id is None:
            raise ConfigError("group.id", None, "offsets are committed for a group")
        return self.config.group_id

    def _forget_partitions(self) -> None:
        self.positions, self._unplaced, self._stored = {}, {}, {}
        self._paused.clear()

    # -- the group -------------------------------------------------------------------------------

    @property
    def has_to_join(self) -> bool:
        """Whether the member has to take part in a rebalance before it may read."""
        return self._membership is not None and self._membership.state is not State.STABLE

    @property
    def heartbeat_wait_ms(self) -> float:
        """Milliseconds until a heartbeat is due; 0 for who is no member."""
        return self._membership.wait_ms(_now_ms()) if self._membership is not None else 0.0

    def beating(self) -> Conversation[None]:
        """Send a heartbeat if it is time, and look whether topics have got partitions."""
        member = self._membership
        if member is None or member.state is not State.STABLE:
            return
        if member.is_leader and self._view.is_stale(member.subscribed_topics):
            member.on_partition_counts((yield from self._partition_counts(member)), _now_ms())
        if member.state is State.STABLE:
            yield from self._send_due(member)

    def rebalancing(self) -> Conversation[None]:
        """Give up what is assigned, join, and begin to read what is assigned then.

        Raises BrokerError for what joining again cannot help, as an authorization that is missing,
        or no offset with `auto.offset.reset=none`.
        """
        member = self._membership
        assert member is not None
        log.info("group %s: joining, because %s", member.config.group_id, member.reason)
        yield from self._give_up(member)
        while member.state is not State.STABLE:
            if member.state is State.ASSIGNING:
                member.assign((yield from self._partition_counts(member)))
                continue
            wait_ms = member.wait_ms(_now_ms())
            if wait_ms > 0:
                yield from Pause(wait_ms)
            yield from self._send_due(member)
        self._metadata = ConsumerGroupMetadata(
            member.config.group_id,
            member.generation_id,
            member.member_id,
            member.config.group_instance_id,
        )
        self._unplaced = dict.fromkeys(member.assignment)
        self.rebalances += 1
        yield from Tell(self._listener.on_partitions_assigned, member.assignment)
        yield from self.placing()

    def _give_up(self, member: Membership) -> Conversation[None]:
        if member.may_commit and not self.stores_positions:
            try:
                yield from self.committing()
            except BrokerError as error:
                group = member.config.group_id
                log.warning("group %s: %s; records will be read again", group, error)
        given_up = tuple(sorted([*self.positions, *self._unplaced]))
        if given_up:
            listener = self._listener
            is_lost = not member.may_commit
            told = listener.on_partitions_lost if is_lost else listener.on_partitions_revoked
            yield from Tell(told, given_up)
        self._forget_partitions()

    def _send_due(self, member: Membership) -> Conversation[None]:
        request = member.next_request(_now_ms())
        if request is None:
            return
        config = self.config
        joins = member.state is not State.STABLE  # the coordinator may hold the answer
        held_ms = config.max_poll_interval_ms + JOIN_MARGIN_MS if joins else 0
        group = member.config.group_id
        response = yield from asking.request_coordinator(
            self._view,
            group,
            request,
            lambda answer: answer.error_code if is_retriable(answer.error_code) else 0,
            what=f"{type(request).__name__.removesuffix('Request')} in group {group}",
            deadline=Deadline(max(config.api_timeout_ms, held_ms)),
            timeout_ms=max(config.request_timeout_ms, held_ms),
            apart=self.waits_apart,
        )
        member.on_response(response, _now_ms())

    def _partition_counts(self, member: Membership) -> Conversation[dict[str, int]]:
        """How many partitions the subscribed topics have; none for one that does not exist."""
        names = sorted(member.subscribed_topics)
        infos = {info.name: info for info in (yield from asking.describe(self._view, names))}
        return {name: len(infos[name].partitions) for name in names if name in infos}

    def leaving(self) -> Conversation[None]:
        """Leave the group, so that others get the partitions at once."""
        member = self._membership
        if member is None:
            return
        group = member.config.group_id
        try:
            if member.has_to_leave:
                yield from asking.request_coordinator(
                    self._view,
                    group,
                    lambda to: member.leave_request(to.version_for(LeaveGroupRequest)),
                    what=f"leaving group {group}",
                    deadline=Deadline(LEAVE_TIMEOUT_MS),
                    timeout_ms=LEAVE_TIMEOUT_MS,
                )
        except ClientError as error:  # the session ends by itself
            log.warning("leaving group %s: %s", group, error)
        member.forget()

    # -- offsets ---------------------------------------------------------------------------------

    def committing(
        self, offsets: Mapping[TopicPartition, CommittedOffset | int] | None = None
    ) -> Conversation[None]:
        """Commit `offsets` (of the next records to read), or None: what was stored since the last
        commit, which stays stored when that fails.

        BrokerError ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or REBALANCE_IN_PROGRESS when the group
        has rebalanced without this member: what was not committed is read again.
        """
        stored: dict[TopicPartition, CommittedOffset] = {}
        if offsets is None:
            stored, self._stored = self._stored, {}
            wanted = stored
        else:
            wanted = {
                TopicPartition(*at): CommittedOffset(one) if isinstance(one, int) else one
                for at, one in offsets.items()
            }
        if not wanted:
            return
        member = self._membership
        try:
            yield from writing_offsets(self._view, self.consumer_group_metadata(), wanted)
        except BaseException as error:
            left = {at: one for at, one in stored.items() if at in self.positions}
            self._stored = {**left, **self._stored}
            if isinstance(error, BrokerError) and error.code is not None and member is not None:
                member.on_commit_error(error.code, _now_ms())
            raise

    def reading_committed(
        self, partitions: Collection[TopicPartition]
    ) -> Conversation[dict[TopicPartition, CommittedOffset]]:
        """What the group has committed, once no open transaction may change it."""
        if not partitions:
            return {}
        return (
            yield from reading_offsets(self._view, self._group(), partitions, require_stable=True)
        )

    # -- positions -------------------------------------------------------------------------------

    def placing(self) -> Conversation[None]:
        """Find positions for partitions that are assigned and have none."""
        asked = [at for at, where in self._unplaced.items() if where is None]
        if self.config.group_id is not None:
            for at, committed in (yield from self.reading_committed(asked)).items():
                self._place(at, None, FetchPosition(committed.offset, committed.leader_epoch))
        if self._unplaced:
            wanted = dict(self._unplaced)
            for at, offset in (yield from self._listed(wanted)).items():
                self._place(at, wanted[at], FetchPosition(offset))

    def _place(self, at: TopicPartition, asked: int | None, position: FetchPosition) -> None:
        """Begin here, unless the application has said otherwise meanwhile."""
        if at in self._unplaced and self._unplaced[at] == asked:
            del self._unplaced[at]
            self.positions[at] = position

    def _listed(
        self, wanted: Mapping[TopicPartition, int | None]
    ) -> Conversation[dict[TopicPartition, int]]:
        """Offsets of timestamps (EARLIEST, LATEST); None: where `auto.offset.reset` says."""
        reset = _RESETS.get(self.config.auto_offset_reset)
        questions: dict[TopicPartition, int] = {}
        for at, where in wanted.items():
            question = reset if where is None else where
            if question is None:
                group = self.config.group_id
                raise BrokerError.of(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"group {group} has no offset in the log and auto.offset.reset=none",
                    topic=at.topic,
                    partition=at.partition,
                )
            questions[at] = question
        listed = yield from listing_offsets(self._view, questions)
        return {partition: found.offset for partition, found in listed.items()}

    def reading(
        self, max_wait_ms: float, skipped: Collection[TopicPartition] = ()
    ) -> Conversation[list[Fetched]]:
        """What there is at the positions of partitions that are neither paused nor skipped, if any
        comes in time. Positions stay; see `_take`.

        Raises OffsetOutOfRange with `auto.offset.reset=none`, and what `FetchCore.fetching` does.
        """
        yield from self.placing()
        wanted = {
            at: where
            for at, where in self.positions.items()
            if at not in self._paused and at not in skipped
        }
        if not wanted:
            if max_wait_ms > 0:
                yield from Pause(max_wait_ms)
            return []
        try:
            found = yield from self._fetch.fetching(wanted, max_wait_ms=int(max_wait_ms))
        except OffsetOutOfRange as error:
            yield from self._reset(error)
            return []
        return [fetched for fetched in found if self._brings_records(fetched)]

    def _reset(self, error: OffsetOutOfRange) -> Conversation[None]:
        """Read on where `auto.offset.reset` says: retention has overtaken the group."""
        if error.topic is None or error.partition is None:
            raise error
        at = TopicPartition(error.topic, error.partition)
        offset = (yield from self._listed({at: None}))[at]
        log.warning("group %s: %s; continuing at offset %d", self.config.group_id, error, offset)
        if at in self.positions:
            self.positions[at] = FetchPosition(offset)

    def _brings_records(self, fetched: Fetched) -> bool:
        """Whether there is something at the position, which nobody has moved meanwhile.

        Where the leader's log parts from what was read before (KIP-320), reading goes on at the
        first offset that differs, as Kafka's consumer does.
        """
        position = self.positions.get(fetched.partition)
        if position is None or position.offset != fetched.start_offset:
            return False
        if fetched.diverging is not None:
            offset = fetched.diverging.end_offset
            log.warning(
                "group %s: the log of %s was truncated below offset %d; continuing at offset %d",
                self.config.group_id,
                fetched.partition,
                position.offset,
                offset,
            )
            self.positions[fetched.partition] = FetchPosition(offset)
            return False
        return fetched.next_offset > position.offset

    def _take(self, fetched: Fetched) -> None:
        """Move the position behind what was fetched."""
        self._move(fetched.partition, FetchPosition(fetched.next_offset, fetched.last_epoch))

    def _move(self, partition: TopicPartition, position: FetchPosition) -> None:
        self.positions[partition] = position
        if self.stores_positions:
            self.store(partition, position.offset, position.last_epoch)


def _now_ms() -> float:
    return time.monotonic() * 1000
