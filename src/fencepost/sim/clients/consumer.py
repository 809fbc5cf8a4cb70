"""A consumer of all partitions, from their beginning on; every batch that it reads is checked.

With every other fetch it names the epoch of the last batch it has read, as consumers do that want
to know whether the log under them was cut (KIP-320). It must not have been: no replica ever cuts
off what was visible, unless a scenario has asked for an unclean election. Then the consumer goes
back to where its log and the leader's diverge.

Partitions take turns; one that has more than a fetch brought is fetched from again at once, so that
a consumer of small fetches reads faster than any number of producers writes. Some consumers wait at
the broker for records, and some have fetch sessions with it (KIP-227).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fencepost.batch.header import iter_headers
from fencepost.client.transactions import committed_slices
from fencepost.machines.partition.inputs import Isolation
from fencepost.machines.partition.queries import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from fencepost.sim.clients.client import Client
from fencepost.sim.oracle import Violation
from fencepost.sim.partition_oracle import NO_BROKER, PartitionKey, Place, passed
from fencepost.sim.surroundings import Surroundings
from fencepost.sim.transaction_oracle import ReadCommitted
from fencepost.wire.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fencepost.wire.errors import ErrorCode

CONSUMER = -1
WAIT_MS = (0, 200)
FETCH_BYTES = (1 << 20, 200, 1_000)

_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


@dataclass(slots=True)
class Position:
    """How far a partition was read, and the epoch of the last batch."""

    offset: int = 0
    epoch: int = -1


@dataclass(slots=True)
class Session:
    """What a broker knows of this consumer, and which partition it was told of last."""

    session_id: int = 0
    epoch: int = 0
    key: PartitionKey | None = None


class Consumer(Client):
    """See the module docstring."""

    def __init__(
        self, world: Surroundings, client_id: int, *, reads_committed: bool = False
    ) -> None:
        super().__init__(world, client_id)
        self.isolation = Isolation.READ_COMMITTED if reads_committed else Isolation.READ_UNCOMMITTED
        self.positions: dict[PartitionKey, Position] = {}
        self.fetch_bytes = FETCH_BYTES[self.lane.pick(len(FETCH_BYTES))]
        self.consumed = 0
        self._waits = False
        self._turns = 0
        self._max_wait_ms = WAIT_MS[self.lane.pick(len(WAIT_MS))]
        self._has_sessions = self.lane.pick(2) == 1
        self._sessions: dict[int, Session] = {}

    def begin(self) -> None:
        self.later(2 * self.world.options.consume_every_ms, self._turn)

    def _turn(self) -> None:
        self.begin()
        keys = self.partitions()
        if keys and not self._waits:
            self._turns += 1
            self.fetch(keys[self._turns % len(keys)])

    def fetch(
        self, key: PartitionKey, leader: int | None = None, *, names_epoch: bool | None = None
    ) -> None:
        """Ask the leader for what comes next; None: chance says whether the epoch is named."""
        topic = self.name_of(key)
        leader = self.leader_of(key) if leader is None else leader
        if topic is None or leader is None:
            return
        position = self.positions.setdefault(key, Position())
        if names_epoch is None:
            names_epoch = self.lane.pick(2) == 1
        asked = FetchPartition(
            partition=key[1],
            fetch_offset=position.offset,
            last_fetched_epoch=position.epoch if names_epoch else -1,
            partition_max_bytes=self.fetch_bytes,
        )
        request = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            max_bytes=self.fetch_bytes,
            session_epoch=-1,
            isolation_level=self.isolation,
            topics=[FetchTopic(topic=topic, topic_id=key[0], partitions=[asked])],
        )
        if self._has_sessions:
            self._join_session(request, leader, key)
        self._waits = True
        offset = position.offset
        self.ask(leader, request, lambda response: self._answered(key, leader, offset, response))

    def _answered(self, key: PartitionKey, leader: int, offset: int, response: Any) -> None:
        self._waits = False
        self._note_session(leader, response)
        if response is None or not response.responses:
            return
        part = response.responses[0].partitions[0]
        error = ErrorCode(part.error_code)
        if error is ErrorCode.NONE:
            if part.diverging_epoch.epoch >= 0:
                if self.is_deposed(leader, key):
                    return  # it has not what its successor took
                if key in self.world.observer.oracle.partitions.may_lose:
                    end = part.diverging_epoch
                    self.positions[key] = Position(end.end_offset, end.epoch)
                    return
                raise Violation("I20", f"partition {key[1]} was cut under client {self.id}: {part}")
            if self._read(key, part) and self.positions[key].offset < part.high_watermark:
                self.fetch(key)
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE and (
            self.is_deposed(leader, key) or offset != self.positions[key].offset
        ):
            return  # the next fetch asks the leader of then, from the position of then
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE and self._is_late(key):
            self._go_to_start(key, leader)
        elif error not in _TRY_AGAIN:
            raise Violation(
                "I20",
                f"what stood at {self.positions[key].offset} of partition {key[1]} is gone:"
                f" {error.name}",
            )

    def _is_late(self, key: PartitionKey) -> bool:
        """Whether what it wants to read next may have been deleted."""
        may_start_at = self.world.observer.oracle.partitions.may_start_at.get(key, 0)
        return self.positions[key].offset < may_start_at

    def _go_to_start(self, key: PartitionKey, leader: int) -> None:
        """Go on where the log begins now (auto.offset.reset=earliest)."""
        asked = ListOffsetsPartition(partition_index=key[1], timestamp=EARLIEST_TIMESTAMP)
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=self.isolation,
            topics=[ListOffsetsTopic(name=self.name_of(key) or "", partitions=[asked])],
        )

        def told(response: Any) -> None:
            part = None if response is None else response.topics[0].partitions[0]
            if part is not None and not part.error_code:
                self.positions[key] = Position(max(part.offset, self.positions[key].offset))

        self.ask(leader, request, told)

    def ask_latest(self, key: PartitionKey, told: Callable[[str], None]) -> None:
        """Ask the leader where the partition ends; `told` hears the offset, or the error."""
        asked = ListOffsetsPartition(partition_index=key[1], timestamp=LATEST_TIMESTAMP)
        topics = [ListOffsetsTopic(name=self.name_of(key) or "", partitions=[asked])]
        leader = self.leader_of(key)
        assert leader is not None, "a scenario asks who is there"

        def answered(response: Any) -> None:
            part = None if response is None else response.topics[0].partitions[0]
            if part is None:
                told("no answer")
            else:
                told(ErrorCode(part.error_code).name if part.error_code else str(part.offset))

        self.ask(leader, ListOffsetsRequest(replica_id=CONSUMER, topics=topics), answered)

    def _join_session(self, request: FetchRequest, leader: int, key: PartitionKey) -> None:
        """Have the session with this broker be about this partition alone."""
        session = self._sessions.setdefault(leader, Session())
        request.session_id, request.session_epoch = session.session_id, session.epoch
        if session.key not in (None, key) and session.epoch > 0:
            topic_id, index = session.key or key
            forgotten = ForgottenTopic(
                topic=self.name_of(key) or "", topic_id=topic_id, partitions=[index]
            )
            request.forgotten_topics_data = [forgotten]
        session.key = key

    def _note_session(self, leader: int, response: Any) -> None:
        """Go on with the session, or begin another if the answer is lost or refuses it."""
        session = self._sessions.get(leader)
        if session is None:
            return
        if response is None or response.error_code or not response.session_id:
            self._sessions[leader] = Session()
        else:
            session.session_id, session.epoch = response.session_id, session.epoch + 1

    def _read(self, key: PartitionKey, part: Any) -> bool:
        """Check what was served; whether there was anything new."""
        records = part.records or b""
        data = b"".join(records) if isinstance(records, list | tuple) else bytes(records)
        position = self.positions[key]
        before = position.offset
        observer = self.world.observer
        for one in passed(Place.READ, NO_BROKER, key, data):
            batch = one.batch
            if batch.next_offset <= position.offset:
                continue
            observer.batch_passed(one)
            observer.consumed(key, batch)
            position.offset, position.epoch = batch.next_offset, batch.epoch
            self.consumed += 1
        if self.isolation == Isolation.READ_COMMITTED and position.offset > before:
            self._note_committed(key, before, part, data)
        return position.offset > before

    def _note_committed(self, key: PartitionKey, before: int, part: Any, data: bytes) -> None:
        """Tell what of it is not part of an aborted transaction, as a consumer finds out."""
        aborted = [(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()]
        given = {
            header.base_offset
            for piece in committed_slices(memoryview(data), aborted)
            for _, header in iter_headers(piece)
            if header.base_offset >= before and header.records_count and not header.is_control
        }
        to_offset = self.positions[key].offset
        read = ReadCommitted(self.id, key, before, to_offset, frozenset(given))
        self.world.observer.read_committed(read)
