"""A batch on its way through the broker: its bytes together with its header, parsed once.

Whoever takes a batch in (a producer's, a leader's answer, one that was built here) reads its header
there and hands both on, through the machines and the driver to the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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


def iter_batches(buf: Buffer) -> Iterator[RecordBatch]:
    """Every whole batch in `buf`, as a view of it; one that is cut at the end is left out.

    BatchError as `iter_headers` raises it.
    """
    view = memoryview(buf)
    for position, header in iter_headers(view):
        yield RecordBatch(header, view[position : position + header.size_bytes])
