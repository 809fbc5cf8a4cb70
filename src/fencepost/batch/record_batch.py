"""A batch on its way through the broker: its bytes together with its header, parsed once.

A batch's header is read where the batch enters the broker: from a producer, from a leader that is
fetched from, or built here. Both are handed on, through the machines and the driver to the log.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeGuard

from fencepost.batch import backend
from fencepost.batch.header import BatchHeader, iter_headers, read_header
from fencepost.wire.types import Buffer


class RecordBatch(NamedTuple):
    """One whole batch, or message of format v0 or v1. `data` is exactly what `header` describes.

    The leader that appends it stamps offset, epoch and perhaps time into `data`, which must be
    writable for that; `header` stays as it was before.
    """

    header: BatchHeader
    data: Buffer

    @classmethod
    def parse(cls, data: Buffer) -> RecordBatch:
        """The one batch in `data`. BatchError as `read_header`; AssertionError if it is cut."""
        header = read_header(data)
        assert len(data) == header.size_bytes, f"{header.size_bytes} bytes in {len(data)}"
        return cls(header, data)


class BatchBlock(Sequence[RecordBatch]):
    """Producers' batches for one log, one behind the other in one buffer, as they will stand there.

    None is of a transaction, or has its base offset yet. `_produce.Block` is one; where that is not
    built there are none.
    """

    offsets: int
    """How many offsets they take."""
    max_timestamp: int
    """The largest of all."""
    size_bytes: int
    data: bytearray
    producers: Sequence[tuple[int, BatchHeader]]
    """Of those that have a producer id: the place in the sequence, and the header."""

    @abstractmethod
    def stamp(self, first_offset: int, leader_epoch: int) -> Sequence[int]:
        """Give every batch its place in the log; the base offsets of those in `producers`."""

    @abstractmethod
    def index_entries(
        self,
        next_relative: int,
        newest_ms: int,
        newest_relative: int,
        bytes_since_index: int,
        interval_bytes: int,
    ) -> tuple[list[tuple[int, int, int, int]], int, int, int]:
        """What the indexes of a segment get, in which the block begins at that relative offset.

        Entries, the newest timestamp, its relative offset, and the bytes since the last entry; the
        latter are given as they are in front of the block. An entry has a relative offset, the
        position in the block, and the newest timestamp so far with its relative offset.
        """


_BLOCK: Final = None if backend.produce_kernel is None else backend.produce_kernel.Block
if _BLOCK is not None:
    BatchBlock.register(_BLOCK)


def is_block(batches: Sequence[RecordBatch]) -> TypeGuard[BatchBlock]:
    """Whether it is a `BatchBlock`: for the hot path, where `isinstance` would ask an ABC's
    registry each time, which takes longer than several of the steps around it."""
    return type(batches) is _BLOCK


def iter_batches(buf: Buffer) -> Iterator[RecordBatch]:
    """Every whole batch in `buf`, as a view of it; one that is cut at the end is left out.

    BatchError as `iter_headers` raises it.
    """
    view = memoryview(buf)
    for position, header in iter_headers(view):
        yield RecordBatch(header, view[position : position + header.size_bytes])
