"""A world small enough to hold in one's head: logs in lists, timers in a dict, flushes by hand.

`World` is a set of ports for the real `Driver`. Nothing is durable until `flush` says so, and
`crash` takes away what is not. It keeps to the ports' contract: an append that fails leaves the log
as it was, a flush that began before a cut is not reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import Any

from fencepost.batch.header import BatchHeader, iter_headers, read_header, stamp
from fencepost.batch.records import build_batch
from fencepost.log.epochs import LeaderEpochCache
from fencepost.log.producers import ProducerStates
from fencepost.log.replay import note_batch
from fencepost.machines.driver import Driver
from fencepost.machines.effects import (
    Append,
    DropPrefix,
    InstallSnapshot,
    RepairBatch,
    StoreSnapshot,
    Truncate,
)


class MemoryLog:
    """A `LogView` over a list of batches, with what survives a crash."""

    def __init__(self) -> None:
        self.batches: list[tuple[BatchHeader, bytes]] = []
        self.start_offset = 0
        self.end_offset = 0
        self.durable_offset = 0
        self.epochs = LeaderEpochCache()
        self.producers = ProducerStates()
        self.refuses: str | None = None

    def append(self, work: Append) -> int:
        """Append a leader's or a follower's batches."""
        if self.refuses is not None:
            raise OSError(self.refuses)
        for header, data in work.batches:
            if work.as_leader:
                assert isinstance(data, bytearray)
                stamp(data, 0, base_offset=self.end_offset, leader_epoch=work.leader_epoch)
                header = read_header(data)
            self._take(header, bytes(data))
        return self.end_offset

    def _take(self, header: BatchHeader, data: bytes) -> None:
        assert header.base_offset >= self.end_offset
        assert len(data) == header.size_bytes
        self.batches.append((header, data))
        if header.partition_leader_epoch >= 0:  # messages of before there were epochs have none
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
        note_batch(self.producers, header, header.base_offset, data)
        self.end_offset = header.next_offset

    def truncate(self, work: Truncate) -> None:
        """Cut, durably."""
        if work.start_over:
            self.batches = []
            self.start_offset = self.end_offset = work.end_offset
            self.epochs.clear()
            self.producers.clear(work.end_offset)
        else:
            self._keep_below(work.end_offset)
        self.durable_offset = min(self.durable_offset, self.end_offset)
        if work.start_over:
            self.durable_offset = work.end_offset

    def drop_prefix(self, work: DropPrefix) -> None:
        """Start behind what is deleted."""
        if self.refuses is not None:
            raise OSError(self.refuses)
        self.start_offset = work.start_offset
        self.epochs.truncate_from_start(work.start_offset)
        self.batches = [b for b in self.batches if b[0].next_offset > work.start_offset]

    def _keep_below(self, end_offset: int) -> None:
        """Rebuild from the whole batches below `end_offset`; epochs begun before it stay."""
        kept = [b for b in self.batches if b[0].next_offset <= end_offset]
        for header, _ in self.batches[len(kept) :]:
            end_offset = min(end_offset, header.base_offset)  # a batch goes as a whole
        self.batches = []
        self.producers.clear(self.start_offset)
        self.end_offset = self.start_offset
        epochs = LeaderEpochCache(tuple(self.epochs))
        self.epochs.clear()
        for header, data in kept:
            self._take(header, data)
        self.end_offset = max(self.end_offset, end_offset) if kept or end_offset else 0
        epochs.truncate_from_end(self.end_offset)
        self.epochs = epochs

    def crash(self) -> None:
        """Power loss: what was not flushed is gone, with the epochs that nothing durable names."""
        kept = [b for b in self.batches if b[0].next_offset <= self.durable_offset]
        self.batches = []
        self.epochs.clear()
        self.producers.clear(self.start_offset)
        self.end_offset = self.start_offset
        for header, data in kept:
            self._take(header, data)
        self.durable_offset = self.end_offset

    def read(self, from_offset: int, upto: int) -> list[tuple[BatchHeader, bytes]]:
        """Whole batches that hold offsets in [from_offset, upto)."""
        return [
            (header, data)
            for header, data in self.batches
            if header.next_offset > from_offset and header.base_offset < upto
        ]


class World:
    """Ports for one driver."""

    def __init__(self, *, flush_at_once: bool = False) -> None:
        self.driver = Driver(self)
        self.now = 1_000
        self.wall_ahead = 1_700_000_000_000
        self.flush_at_once = flush_at_once
        self.logs: dict[Hashable, MemoryLog] = defaultdict(MemoryLog)
        self.flush_wanted: set[Hashable] = set()
        self.replies: dict[Any, Any] = {}
        self.sent: list[tuple[Hashable, Any, Any]] = []
        self.timers: dict[tuple[Hashable, str], int] = {}
        self.timers_set = 0
        self.failures: dict[Hashable, str] = {}
        self.states: dict[Hashable, Any] = {}
        self.steps = 0

    # Ports

    def now_ms(self) -> int:
        return self.now

    def wall_ms(self) -> int:
        return self.now + self.wall_ahead

    def append(self, key: Hashable, work: Append, wall_ms: int) -> int:
        return self.logs[key].append(work)

    def request_flush(self, key: Hashable) -> None:
        if self.flush_at_once:
            self.flush_wanted.add(key)
            self.flush(key)
        else:
            self.flush_wanted.add(key)

    def truncate(self, key: Hashable, work: Truncate) -> int:
        self.logs[key].truncate(work)
        return self.logs[key].end_offset

    def write_state(self, key: Hashable, state: Any) -> None:
        self.states[key] = state

    def store_snapshot(self, key: Hashable, work: StoreSnapshot) -> None:
        raise AssertionError("partitions have no snapshots")

    def install_snapshot(self, key: Hashable, work: InstallSnapshot) -> None:
        raise AssertionError("partitions have no snapshots")

    def drop_prefix(self, key: Hashable, work: DropPrefix) -> None:
        self.logs[key].drop_prefix(work)

    def repair_batch(self, key: Hashable, work: RepairBatch) -> None:
        raise AssertionError("partitions are repaired by their followers")

    def send(self, key: Hashable, to: Any, message: Any) -> None:
        self.sent.append((key, to, message))

    def reply(self, token: Any, value: Any) -> None:
        assert token not in self.replies, f"{token!r} is answered twice"
        self.replies[token] = value

    def tell(self, machine: Any, input_: Any) -> None:
        self.driver.feed(machine, input_)

    def set_timer(self, key: Hashable, name: str, deadline_ms: int | None) -> None:
        self.timers_set += 1
        if deadline_ms is None:
            self.timers.pop((key, name), None)
        else:
            self.timers[key, name] = deadline_ms

    def stepped(self, key: Hashable, machine: Any) -> None:
        self.steps += 1

    def failed(self, key: Hashable, reason: str) -> None:
        self.failures[key] = reason

    # What a test does to the world

    def flush(self, key: Hashable) -> None:
        """Everything appended so far is durable."""
        if key in self.flush_wanted:
            self.flush_wanted.discard(key)
            log = self.logs[key]
            log.durable_offset = log.end_offset
            self.driver.persisted(key, log.end_offset)

    def advance(self, by_ms: int) -> None:
        """Let time pass, firing timers in the order of their deadlines."""
        until = self.now + by_ms
        while due := [(at, key) for key, at in self.timers.items() if at <= until]:
            at, (key, name) = min(due, key=lambda entry: (entry[0], str(entry[1])))
            self.now = max(self.now, at)
            del self.timers[key, name]
            self.driver.timer_fired(key, name)
        self.now = until

    def take_sent(self) -> list[tuple[Hashable, Any, Any]]:
        """What was sent since the last call."""
        sent, self.sent = self.sent, []
        return sent


def batch(
    count: int = 1,
    *,
    value: bytes = b"v",
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytearray:
    """A batch of `count` records; `producer` is (id, epoch, base sequence)."""
    producer_id, producer_epoch, base_sequence = producer
    return build_batch(
        [(None, value)] * count,
        timestamp_ms=1,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def headers_of(data: bytes | bytearray) -> list[BatchHeader]:
    """The headers in a blob."""
    return [header for _, header in iter_headers(data)]
