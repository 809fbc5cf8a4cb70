"""Loading a coordinator: all records of its partition are applied, in pieces.

Between two pieces others have their turn, and the log may change: compaction may remove what was to
be read next, retention may move the log's start, segments may be replaced. So nothing of the log is
kept open; each piece begins at the offset behind the last one, and takes what there is from there.
What a compacted log lacks, the machine does not miss (`CoordinatorMachine.apply`).

Records of a type that this version does not know are passed over, as Kafka does (KIP-915): they may
be left over from a newer version. A record that is known and makes no sense is an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from fencepost.batch.control import read_control
from fencepost.batch.header import MAGIC, BatchHeader
from fencepost.batch.records import Row, read_batch, read_payload, read_rows_in_parts
from fencepost.log.page_cache import NotCachedError
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.coordinator import CoordinatorMachine
from fencepost.runtime.cooperative import Pieces
from fencepost.wire.records.control import ControlType

log = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")

BATCHES_PER_READ: Final = 256
"""Batches read from the log at a time."""

BYTES_PER_READ: Final = 1024 * 1024
"""The same in bytes; the last batch may exceed it."""

RECORDS_PER_PIECE: Final = 100
"""Records applied at a time: some milliseconds."""


class Decompress(Protocol):
    """Calls `work(max_bytes)`: here if there is little output, else perhaps in a thread."""

    def __call__(self, work: Callable[[int], T]) -> Pieces[T]:
        """What `work` returns."""
        ...


class ReadLog(Protocol):
    """Calls `work()`, which reads: here, and again behind whatever it had to wait for."""

    def __call__(self, work: Callable[[], T]) -> Pieces[T]:
        """What `work` returns."""
        ...


class RecordCodec(Protocol[R]):
    """How a coordinator's records are written."""

    def encode(self, record: R) -> tuple[bytes, bytes | None]:
        """(key, value); a value of None is a tombstone."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> R | None:
        """The record; None if it is of a type that is not known here. DecodeError."""
        ...


def load_pieces(
    source: PartitionLog,
    next_offset: int,
    machine: CoordinatorMachine[R],
    codec: RecordCodec[R],
    read: ReadLog,
    decompress: Decompress,
) -> Pieces[int]:
    """Apply what is in the log from `next_offset` on; the offset behind it.

    Raises LogError, BatchError, DecodeError, OSError.
    """
    while True:
        next_offset = max(next_offset, source.start_offset)
        batches = yield from read(partial(_read_some, source, next_offset))
        if not batches:
            return max(next_offset, source.end_offset)
        for header, batch in batches:
            if header.is_control:
                _apply_markers(machine, header, batch)
            else:
                yield from _apply_batch(machine, codec, decompress, header, batch, next_offset)
            next_offset = header.next_offset
            yield None


def _read_some(source: PartitionLog, next_offset: int) -> list[tuple[BatchHeader, memoryview]]:
    """The next batches; none at the end of the log. NotCachedError if not one of them is."""
    batches: list[tuple[BatchHeader, memoryview]] = []
    size_bytes = 0
    try:
        for header, batch in source.read_all_batches(next_offset, source.end_offset):
            batches.append((header, batch))
            size_bytes += len(batch)
            if len(batches) == BATCHES_PER_READ or size_bytes >= BYTES_PER_READ:
                break
    except NotCachedError:
        if not batches:
            raise
    return batches


def _apply_markers(
    machine: CoordinatorMachine[Any], header: BatchHeader, batch: memoryview
) -> None:
    for control in read_control(batch):
        if control.type in (ControlType.COMMIT, ControlType.ABORT):
            committed = control.type == ControlType.COMMIT
            machine.apply_transaction_end(header.producer_id, committed=committed)


def _apply_batch(
    machine: CoordinatorMachine[R],
    codec: RecordCodec[R],
    decompress: Decompress,
    header: BatchHeader,
    batch: memoryview,
    next_offset: int,
) -> Pieces[None]:
    """Apply a batch's records from `next_offset` on: cleaned batches may begin below it."""
    producer_id = header.producer_id if header.is_transactional else -1
    parts = yield from decompress(partial(_parts_of, header, batch))
    for rows in parts:
        for offset, _, _, key, value, _ in rows:
            if offset < next_offset:
                continue
            record = codec.decode(key or b"", value)
            if record is None:
                log.debug("skipping a record of an unknown type at offset %d", offset)
            else:
                machine.apply(record, offset, producer_id)
        yield None


def _parts_of(header: BatchHeader, batch: memoryview, max_bytes: int) -> Iterable[Sequence[Row]]:
    """Decompress a batch now, and make its records later, some at a time. Any thread. BatchError.

    Its CRC was looked at when it was read.
    """
    if header.magic != MAGIC:
        return [read_batch(batch, 0, header, max_decompressed_bytes=max_bytes)]
    payload = read_payload(batch, 0, header, max_bytes)
    return read_rows_in_parts(payload, header, RECORDS_PER_PIECE)
