"""The log of a node in a search: batches in a list, of which some are durable.

Of each LeaderChange the list of who granted votes is left out: no code reads it, and it would tell
logs apart that are alike.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fencepost.batch.control import build_control_batch, read_control
from fencepost.batch.header import read_header, stamp
from fencepost.log.epochs import LeaderEpochCache
from fencepost.machines.effects import Append
from fencepost.wire.message import Message
from fencepost.wire.records.control import ControlType, LeaderChangeMessage
from fencepost.wire.types import Uuid


class Entry(NamedTuple):
    """One batch of a log."""

    base_offset: int
    next_offset: int
    epoch: int
    data: bytes


class CellLog:
    """A log of entries, of which the first `durable` survive a power cut."""

    start_offset = 0

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.durable = 0
        self.epochs = LeaderEpochCache()

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get."""
        return self.entries[-1].next_offset if self.entries else 0

    @property
    def recovery_point(self) -> int:
        """Below it everything is durable."""
        return self.entries[self.durable - 1].next_offset if self.durable else 0

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches."""
        return sum(len(entry.data) for entry in self.entries)

    def batch_start(self, offset: int) -> int:
        """Where the batch begins that holds the record at `offset`."""
        return next(e.base_offset for e in self.entries if offset < e.next_offset)

    def append(self, work: Append) -> None:
        """Add batches to the end, stamped if a leader appends them."""
        for header, batch in work.batches:
            if work.as_leader:
                batch = _without_voters_names(batch, self.end_offset, work.leader_epoch)
                header = read_header(batch)
            assert header.base_offset == self.end_offset, "no gap and no overlap"
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            self.entries.append(
                Entry(
                    header.base_offset,
                    header.next_offset,
                    header.partition_leader_epoch,
                    bytes(batch),
                )
            )

    def cut(self, end_offset: int) -> None:
        """Let the log end at `end_offset`, where a batch ends."""
        while self.entries and self.entries[-1].next_offset > end_offset:
            self.entries.pop()
        assert self.end_offset == end_offset, "cut between batches"
        self.epochs.truncate_from_end(end_offset)
        self.durable = min(self.durable, len(self.entries))

    def lose_power(self, kept: int) -> None:
        """What was not flushed is gone, but for `kept` batches."""
        left = self.entries[: self.durable + kept]
        self.cut(left[-1].next_offset if left else 0)


def _without_voters_names(batch: Any, base_offset: int, epoch: int) -> bytearray:
    """The batch as its leader appends it, less the names of who voted for it."""
    if not read_header(batch).is_control:
        stamped = bytearray(batch)
        stamp(stamped, 0, base_offset=base_offset, leader_epoch=epoch)
        return stamped
    records: list[tuple[ControlType, Message]] = []
    for record in read_control(batch):
        assert record.value is not None, "our own control records can be read"
        if isinstance(record.value, LeaderChangeMessage):
            record.value.granting_voters = []
        records.append((ControlType(record.type), record.value))
    return build_control_batch(records, timestamp_ms=0, base_offset=base_offset, leader_epoch=epoch)


def directory(node_id: int) -> Uuid:
    """The directory id of a node's disk."""
    return Uuid(bytes(14) + bytes([1, node_id]))
