"""One partition of `__consumer_offsets` that this node leads, and its `GroupCoordinator`.

Theory of operation
-------------------
A shard *loads*: it reads its partition from start to end into a new coordinator, in pieces among
those of all shards that load (`piecework`), and waits until all it has read is committed. Batches
that grow large are decompressed by a thread, one of a shard at a time. Until then its groups answer
COORDINATOR_LOAD_IN_PROGRESS. Then it is *active*: each decision's records go to the partition
machine with acks=-1 and are applied at once; its replies leave when that write, and every write
before it, is committed. A decision without records waits for the writes before it, so that no
answer, a read included, tells of what may yet be lost.

Writes are numbered; the partition machine answers them in their order, so the number of the last
one that was committed says which replies may leave.

When a write fails, or is not committed in time, the coordinator may be ahead of the log: everybody
who waits is told to try again, and the shard loads again, from what the log then has. Who waits is
known here, from a request's arrival to its answer, wherever its token is meanwhile: in the
coordinator, in a decision, or held back until a write is committed.

When leadership is lost, everybody hears NOT_COORDINATOR and the shard is closed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from fencepost.batch.control import read_control
from fencepost.batch.errors import BatchError
from fencepost.batch.header import MAGIC, BatchHeader
from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import Row, build_batch, read_batch, read_payload, read_rows_in_parts
from fencepost.broker.loop.ports import AsyncPorts
from fencepost.broker.loop.timers import Timer
from fencepost.broker.net.log_limit import LogLimit, cut
from fencepost.broker.net.piecework import Piecework
from fencepost.broker.storage.decompression import Decompression
from fencepost.log.errors import LogError
from fencepost.machines.group import (
    Decision,
    GroupConfig,
    GroupCoordinator,
    GroupMemory,
    TimerName,
    value_version,
)
from fencepost.machines.partition import Produce, ProduceResult
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.errors import DecodeError, ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.control import ControlType
from fencepost.wire.records.group import (
    UnknownRecordTypeError,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

log = logging.getLogger(__name__)

BATCHES_PER_READ: Final = 256
"""Batches read from the log at a time while a shard loads."""

BYTES_PER_READ: Final = 1024 * 1024
"""The same in bytes; the last batch may exceed it."""

RECORDS_PER_PIECE: Final = 100
"""Records applied at a time while a shard loads: some milliseconds."""

LOAD_POLL_MS: Final = 10
"""How often a shard that has read everything looks whether it is committed."""

MAX_WAITING: Final = 100_000
"""Answers that may wait for a commit; who comes then hears COORDINATOR_NOT_AVAILABLE."""

_RECORD_OVERHEAD_BYTES: Final = 32

OnReply = Callable[[ErrorCode, Any], None]
Decide = Callable[[GroupCoordinator, Any], Decision]
_Item = tuple[bytes, bytes | None]
_Pieces = Generator["Future[Any] | None", None, None]

_FOR_CLIENTS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


class Settings:
    """What a shard has to know of the broker's configuration."""

    __slots__ = ("compression", "groups", "log_limit", "memory", "write_timeout_ms")

    def __init__(
        self, groups: GroupConfig, memory: GroupMemory, compression: int, write_timeout_ms: int
    ) -> None:
        self.groups = groups
        self.memory = memory
        self.log_limit = LogLimit()
        self.compression = compression
        self.write_timeout_ms = write_timeout_ms


class GroupShard:
    """See the module. Everything happens on the event loop's thread."""

    def __init__(
        self,
        ports: AsyncPorts,
        hosted: HostedPartition,
        settings: Settings,
        loading: Piecework,
        decompression: Decompression,
        on_loaded: Callable[[GroupShard], None],
    ) -> None:
        self.hosted = hosted
        self._loading = loading
        self._decompression = decompression
        self._ports = ports
        self._settings = settings
        self._on_loaded = on_loaded
        self._coordinator = self._new_coordinator()
        self._state = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._timers: dict[TimerName, Timer] = {}
        self._unanswered: dict[OnReply, None] = {}  # in the order they came
        self._held: deque[tuple[int, OnReply, Any]] = deque()
        self._written = 0  # number of the last write
        self._committed = 0  # number of the last write that is committed
        self._life = 0  # which coordinator it is; answers to an earlier one's writes are void
        self._next_offset = 0
        self._load_timer: Timer | None = None
        self._busy = False
        self._next: deque[Callable[[], None]] = deque()

    # -- life ------------------------------------------------------------------------------

    @property
    def state(self) -> ErrorCode:
        """NONE while the shard answers, else what it says instead."""
        return self._state

    def load(self) -> None:
        """Begin to read the log; in the next turn of the loop, when its machine knows its role."""
        self._life += 1
        self._state = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._coordinator = self._new_coordinator(self._coordinator)
        self._written = self._committed = 0
        self._next_offset = self.hosted.log.start_offset
        self._ports.loop.call_soon(self._load_on, self._life)

    def close(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Stop answering; whoever waits hears `error`."""
        self._life += 1
        self._state = error
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._load_timer is not None:
            self._load_timer.cancel()
            self._load_timer = None
        self._coordinator = self._new_coordinator(self._coordinator)
        self._held.clear()
        unanswered, self._unanswered = self._unanswered, {}
        for on_reply in unanswered:
            _tell(on_reply, error, None)

    def _new_coordinator(self, before: GroupCoordinator | None = None) -> GroupCoordinator:
        """One that knows nothing, in the place of the one before."""
        if before is not None:
            before.discard()
        return GroupCoordinator(self._settings.groups, self._settings.memory)

    def _load_on(self, life: int) -> None:
        if life == self._life:
            self._load_piece(life, self._read_to_the_end())

    def _load_piece(self, life: int, pieces: _Pieces) -> None:
        """One piece; the rest when it is its turn. Of an earlier life nothing is done any more."""
        if life != self._life:
            return
        try:
            future = next(pieces)
        except StopIteration:
            self._read_all(life)
        except (LogError, BatchError, DecodeError, OSError) as error:
            log.error("groups of %s cannot be loaded: %s", self.hosted.key, error)
            self.close(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._loading.later(lambda: self._load_piece(life, pieces), future)

    def _read_all(self, life: int) -> None:
        if self.hosted.machine.high_watermark >= self._next_offset:
            self._activate()
        else:
            # What a crash left unflushed has been read, and is not yet known to be kept.
            self._load_timer = self._ports.timers.after(LOAD_POLL_MS, lambda: self._load_on(life))

    def _read_to_the_end(self) -> _Pieces:
        """Apply every batch. Between two pieces the log may change: nothing of it is kept open."""
        while batches := self._read_some():
            for header, batch in batches:
                yield from self._replay(header, batch)
                self._next_offset = header.next_offset
                yield None

    def _read_some(self) -> list[tuple[BatchHeader, memoryview]]:
        """The next batches; none at the end of the log."""
        source, end_offset = self.hosted.log, self.hosted.log.end_offset
        self._next_offset = max(self._next_offset, source.start_offset)
        batches: list[tuple[BatchHeader, memoryview]] = []
        size_bytes = 0
        for header, batch in source.read_all_batches(self._next_offset, end_offset):
            batches.append((header, batch))
            size_bytes += len(batch)
            if len(batches) == BATCHES_PER_READ or size_bytes >= BYTES_PER_READ:
                return batches
        if not batches:
            self._next_offset = end_offset
        return batches

    def _replay(self, header: BatchHeader, batch: memoryview) -> _Pieces:
        if header.is_control:
            for control in read_control(batch):
                if control.type in (ControlType.COMMIT, ControlType.ABORT):
                    committed = control.type == ControlType.COMMIT
                    self._coordinator.apply_transaction_end(header.producer_id, committed=committed)
            return
        producer_id = header.producer_id if header.is_transactional else -1
        parts = yield from self._decompression.inline_or_run(partial(_parts_of, header, batch))
        for rows in parts:
            for offset, _, _, key, value, _ in rows:
                self._replay_record(offset, key or b"", value, producer_id)
            yield None

    def _replay_record(
        self, offset: int, key_data: bytes, value_data: bytes | None, producer_id: int
    ) -> None:
        try:
            key = decode_key(key_data)
        except UnknownRecordTypeError as error:
            log.debug("%s at %d: %s", self.hosted.key, offset, error)
            return
        if not self._coordinator.keeps(key):
            # Of a group of another kind. Its value may be of a version we have never heard of.
            log.debug("%s at %d: skipped %r", self.hosted.key, offset, key)
            return
        value = None if value_data is None else decode_value(key, value_data)
        self._coordinator.apply(key, value, producer_id=producer_id)

    def _activate(self) -> None:
        self._load_timer = None
        self._state = ErrorCode.NONE
        if self._coordinator.groups:
            log.info("%s: loaded %d groups", self.hosted.key, len(self._coordinator.groups))
        now_ms, wall_ms = self._ports.now_ms(), self._ports.wall_ms()
        self.tell(lambda coordinator: coordinator.finish_loading(now_ms, wall_ms))
        self._on_loaded(self)

    # -- deciding --------------------------------------------------------------------------

    def submit(self, decide: Decide, on_reply: OnReply) -> None:
        """Decide now; `on_reply` hears (NONE, the reply), or (why there is none, None).

        `decide` is given the coordinator and the token to decide with.
        """
        if self._busy:
            # An answer that left made its client's next request arrive: first finish this one.
            self._next.append(lambda: self.submit(decide, on_reply))
        elif self._state is not ErrorCode.NONE:
            _tell(on_reply, self._state, None)
        elif len(self._held) >= MAX_WAITING:
            _tell(on_reply, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        else:
            self._unanswered[on_reply] = None
            self._decide(lambda: decide(self._coordinator, on_reply))

    def tell(self, decide: Callable[[GroupCoordinator], Decision]) -> None:
        """Decide something nobody asked for, if the shard is active."""
        if self._busy:
            self._next.append(lambda: self.tell(decide))
        elif self._state is ErrorCode.NONE:
            self._decide(lambda: decide(self._coordinator))

    def _decide(self, decide: Callable[[], Decision]) -> None:
        """Decide and carry it out. A mistake of ours on the way costs the shard its soft state."""
        self._busy = True
        self._coordinator.limit_records(self.hosted.log.config.max_message_bytes)
        try:
            decision = decide()
            self._carry_out(decision, self._encode(decision.records))
        except Exception:
            log.exception("%s: a decision failed; loading again", self.hosted.key)
            self._start_over(ErrorCode.UNKNOWN_SERVER_ERROR)
        finally:
            self._busy = False
        while self._next and not self._busy:
            self._next.popleft()()

    def _carry_out(self, decision: Decision, batches: list[list[_Item]]) -> None:
        """Apply, arm, hold the replies back; then write, and let go what may leave.

        A write may be answered within `_append`, with success or not: everything that depends on it
        must be in place before.
        """
        for note in decision.notes:
            left_out = self._settings.log_limit.admit()
            if left_out is not None:
                more = f" ({left_out} more lines about groups were left out)" if left_out else ""
                log.info("%s%s", cut(note), more)
        first = self._written + 1
        self._written += len(batches)
        self._held += [(self._written, token, reply) for token, reply in decision.replies]
        for key, value in decision.records:
            self._coordinator.apply(key, value)
        for name, deadline_ms in decision.timers:
            self._set_timer(name, deadline_ms)
        life = self._life
        for number, items in enumerate(batches, first):
            if life == self._life:
                self._append(number, items)
        self._release()

    def _set_timer(self, name: TimerName, deadline_ms: int | None) -> None:
        armed = self._timers.pop(name, None)
        if armed is not None:
            armed.cancel()
        if deadline_ms is not None:
            self._timers[name] = self._ports.timers.at(deadline_ms, lambda: self._timer_fired(name))

    def _timer_fired(self, name: TimerName) -> None:
        self._timers.pop(name, None)
        now_ms, wall_ms = self._ports.now_ms(), self._ports.wall_ms()
        self.tell(lambda coordinator: coordinator.decide_timer(name, now_ms, wall_ms))

    # -- writing ---------------------------------------------------------------------------

    def _encode(self, records: list[tuple[Message, Message | None]]) -> list[list[_Item]]:
        """The records as one batch, or several if it gets too large."""
        batch_bytes_max = self.hosted.log.config.max_message_bytes
        batches: list[list[_Item]] = []
        size_bytes = 0
        for key, value in records:
            data = None if value is None else encode_value(value, value_version(value))
            item = (encode_key(key), data)
            item_bytes = len(item[0]) + len(data or b"") + _RECORD_OVERHEAD_BYTES
            if not batches or size_bytes + item_bytes > batch_bytes_max:
                batches.append([])
                size_bytes = 0
            batches[-1].append(item)
            size_bytes += item_bytes
        return batches

    def _append(self, number: int, items: list[_Item]) -> None:
        data = build_batch(
            items,
            timestamp_ms=self._ports.wall_ms(),
            compression=self._settings.compression,
        )
        life = self._life

        def on_result(result: ProduceResult) -> None:
            if life == self._life:
                self._on_written(number, result.error_code)

        deadline_ms = self._ports.now_ms() + self._settings.write_timeout_ms
        produce = Produce(RecordBatch.parse(data), -1, on_result, deadline_ms)
        self._ports.driver.feed(self.hosted.key, produce)

    def _on_written(self, number: int, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self._committed = max(self._committed, number)
            self._release()
        else:
            log.error("%s: a write failed (%s); loading again", self.hosted.key, error.name)
            self._start_over(_FOR_CLIENTS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR))

    def _start_over(self, error: ErrorCode) -> None:
        """Tell everybody who waits, and go on with what the log says."""
        self.close(error)
        if self.hosted.machine.is_leader:
            self.load()

    def _release(self) -> None:
        """Let the replies go that waited for what is committed now."""
        life = self._life
        while self._held and self._held[0][0] <= self._committed and life == self._life:
            _, on_reply, reply = self._held.popleft()
            self._unanswered.pop(on_reply, None)
            _tell(on_reply, ErrorCode.NONE, reply)


def _parts_of(header: BatchHeader, batch: memoryview, max_bytes: int) -> Iterable[Sequence[Row]]:
    """Decompress a batch now, and make its records later, some at a time. Any thread. BatchError.

    Its CRC was looked at when it was read.
    """
    if header.magic != MAGIC:
        return [read_batch(batch, 0, header, max_decompressed_bytes=max_bytes)]
    payload = read_payload(batch, 0, header, max_bytes)
    return read_rows_in_parts(payload, header, RECORDS_PER_PIECE)


def _tell(on_reply: OnReply, error: ErrorCode, reply: Any) -> None:
    """Answer one request; its trouble is not that of the others."""
    try:
        on_reply(error, reply)
    except Exception:
        log.exception("answering a group request failed")
