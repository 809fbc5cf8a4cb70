"""What a consumer does, without I/O: positions, membership of a group, offsets to be committed.

`Consumer` and `AsyncConsumer` are its faces. What takes requests is a conversation here
(`rebalancing`, `reading`, `committing`, `leaving`); the rest is plain methods.

A consumer subscribes to topics, as a member of the group `group.id`, or is assigned partitions by
its application. `group.protocol` says which kind of member it is: `classic_member` has eager
rebalances, `consumer_member` incremental ones (KIP-848). Reading begins where the group has
committed; where it has committed nothing, or what it has is not in the log any more,
`auto.offset.reset` says where.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, Final

from fencepost.client.classic_member import ClassicMember, require_no_pattern
from fencepost.client.cluster_view import ClusterView
from fencepost.client.consumer_member import ConsumerMember
from fencepost.client.conversation import Conversation, Tell
from fencepost.client.errors import BrokerError, ClientError, ConfigError, OffsetOutOfRange
from fencepost.client.fetch_core import FetchCore, Fetched, FetchPosition
from fencepost.client.group_offsets import reading_offsets, writing_offsets
from fencepost.client.member import Member
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.offsets import EARLIEST, LATEST, listing_offsets
from fencepost.client.pending_fetches import PendingFetches
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.client.retry import Deadline
from fencepost.wire.errors import ErrorCode

log = logging.getLogger("fencepost.client")

_RESETS: Final = {"earliest": EARLIEST, "latest": LATEST}
LOOK_AGAIN_MS: Final = 500
"""So often, at least, a consumer that waits for records looks at what it is to read: in asyncio
other tasks may have moved positions, and heartbeats have brought a rebalance."""


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

    def __init__(self, view: ClusterView[Any]) -> None:
        view.config.check()
        self.config = view.config
        self.positions: dict[TopicPartition, FetchPosition] = {}
        """Where each assigned partition is read on."""
        self.rebalances = 0
        """How often partitions were assigned, to notice a new assignment by."""
        self.view = view
        self._fetches = PendingFetches(FetchCore(view))
        self._member: Member | None = None
        self._member_id = str(uuid.uuid4())
        self.coordinator_purpose = f"coordinator {self._member_id}" if self.waits_apart else ""
        """Of the connection over which the coordinator is asked; see `conversation.Where`."""
        self._listener = ConsumerRebalanceListener()
        self._by_hand: tuple[TopicPartition, ...] = ()
        # Assigned and without a position: where to begin, None for the committed offset.
        self._unplaced: dict[TopicPartition, int | None] = {}
        self._paused: set[TopicPartition] = set()
        self._stored: dict[TopicPartition, CommittedOffset] = {}

    # -- what is read ----------------------------------------------------------------------------

    def _subscribe(
        self,
        topics: Iterable[str],
        listener: ConsumerRebalanceListener | None = None,
        pattern: str | None = None,
    ) -> None:
        """Read these topics from now on, and those whose whole names match `pattern`, as a member
        of the group. ConfigError without `group.id`, and for a pattern in a classic group;
        ClientError when partitions were assigned by hand."""
        group = self._group()
        if self._by_hand:
            raise ClientError("partitions are assigned by hand: unsubscribe first")
        wanted = tuple(sorted(set(topics)))
        if self._member is not None:
            self._member.subscribe(wanted, pattern)
        elif self.config.group_protocol == "consumer":
            self._member = ConsumerMember(self, group, self._member_id, wanted, pattern)
        else:
            require_no_pattern(pattern)
            self._member = ClassicMember(self, group, wanted)
        self._listener = listener or ConsumerRebalanceListener()

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from now on; the group, if there is one, only keeps offsets."""
        if self._member is not None:
            raise ClientError("the consumer is subscribed to topics: unsubscribe first")
        self._by_hand = tuple(TopicPartition(*one) for one in dict.fromkeys(partitions))
        self._forget_partitions(set(self.held()).difference(self._by_hand))
        new = set(self._by_hand).difference(self.positions)
        self._unplaced = dict.fromkeys(one for one in self._by_hand if one in new)

    @property
    def _assigned(self) -> tuple[TopicPartition, ...]:
        return self._by_hand if self._member is None else self._member.assignment

    def consumer_group_metadata(self) -> ConsumerGroupMetadata:
        """This member with its generation or member epoch, for `send_offsets_to_transaction` of a
        producer: offsets that a transaction commits need no `commit`.

        It stays so also when the group has put this member out, until it has joined again: without
        member and generation the coordinator would take offsets of any client. ConfigError without
        `group.id`.
        """
        metadata = self._member.metadata if self._member is not None else None
        return metadata or ConsumerGroupMetadata(self._group())

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
            raise ConfigError("group.id", None, "a consumer that subscribes or commits needs one")
        return self.config.group_id

    def _forget_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        for one in partitions:
            self.positions.pop(one, None)
            self._unplaced.pop(one, None)
            self._stored.pop(one, None)
            self._paused.discard(one)

    # -- the group -------------------------------------------------------------------------------

    @property
    def has_to_join(self) -> bool:
        """Whether the member has to take part in a rebalance before it may read."""
        return self._member is not None and self._member.has_to_join

    @property
    def heartbeat_wait_ms(self) -> float:
        """Milliseconds until a heartbeat is due; 0 without a membership."""
        return self._member.wait_ms if self._member is not None else 0.0

    def beating(self) -> Conversation[None]:
        """Send a heartbeat if it is time."""
        if self._member is not None:
            yield from self._member.beating()

    def rebalancing(self) -> Conversation[None]:
        """Take part in a rebalance: give up what is not this member's any more, and begin to read
        what was assigned.

        Raises BrokerError for what joining again cannot help, as an authorization that is missing,
        or no offset with `auto.offset.reset=none`.
        """
        assert self._member is not None
        yield from self._member.rebalancing()

    def leaving(self) -> Conversation[None]:
        """Leave the group, so that others get the partitions at once."""
        if self._member is not None:
            yield from self._member.leaving()

    def held(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read, or about to be, in order."""
        return tuple(sorted({*self.positions, *self._unplaced}))

    def giving_up(
        self, partitions: Collection[TopicPartition], *, is_lost: bool
    ) -> Conversation[None]:
        """See `member.Reader`."""
        if not is_lost and not self.stores_positions:
            try:
                yield from self.committing()
            except BrokerError as error:
                group = self.config.group_id
                log.warning("group %s: %s; records will be read again", group, error)
        if partitions:
            listener = self._listener
            told = listener.on_partitions_lost if is_lost else listener.on_partitions_revoked
            yield from Tell(told, partitions)
        self._forget_partitions(partitions)

    def taking_on(self, partitions: Collection[TopicPartition]) -> Conversation[None]:
        """See `member.Reader`."""
        self._unplaced.update(dict.fromkeys(partitions))
        self.rebalances += 1
        yield from Tell(self._listener.on_partitions_assigned, partitions)

    # -- offsets ---------------------------------------------------------------------------------

    def committing(
        self, offsets: Mapping[TopicPartition, CommittedOffset | int] | None = None
    ) -> Conversation[None]:
        """Commit `offsets` (of the next records to read), or None: what was stored since the last
        commit, which stays stored when that fails.

        BrokerError ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS or
        STALE_MEMBER_EPOCH when the group has gone on without this member: what was not committed is
        read again.
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
        try:
            yield from self._writing(wanted)
        except BaseException:
            left = {at: one for at, one in stored.items() if at in self.positions}
            self._stored = {**left, **self._stored}
            raise

    def _writing(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> Conversation[None]:
        """Commit; again where the coordinator knows a newer epoch of this member."""
        while True:
            try:
                yield from writing_offsets(self.view, self.consumer_group_metadata(), offsets)
                return
            except BrokerError as error:
                member = self._member
                if member is None or error.code is None:
                    raise
                if not (yield from member.recovering(error.code)):
                    raise

    def reading_committed(
        self, partitions: Collection[TopicPartition]
    ) -> Conversation[dict[TopicPartition, CommittedOffset]]:
        """What the group has committed, once no open transaction may change it."""
        if not partitions:
            return {}
        return (
            yield from reading_offsets(self.view, self._group(), partitions, require_stable=True)
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
        listed = yield from listing_offsets(self.view, questions)
        return {partition: found.offset for partition, found in listed.items()}

    def reading(
        self, max_wait_ms: float, skipped: Collection[TopicPartition] = ()
    ) -> Conversation[list[Fetched]]:
        """What there is at the positions of partitions that are neither paused nor skipped, if any
        comes in time. Positions stay; see `_take`.

        A leader that has nothing yet keeps its fetch; a later call takes the answer. Raises
        OffsetOutOfRange with `auto.offset.reset=none`, and what `PendingFetches.receiving` does.
        """

        def wanted() -> dict[TopicPartition, FetchPosition]:
            return {
                at: where
                for at, where in self.positions.items()
                if at not in self._paused and at not in skipped
            }

        deadline = Deadline(max_wait_ms)
        while True:
            yield from self.placing()
            left_ms = deadline.remaining_ms()
            try:
                found = yield from self._fetches.receiving(wanted, min(left_ms, LOOK_AGAIN_MS))
            except OffsetOutOfRange as error:
                yield from self._reset(error)
                continue
            found = [fetched for fetched in found if self._brings_records(fetched)]
            if found or deadline.passed:
                return found

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
        """Whether there is something at the position, which was not moved meanwhile.

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
