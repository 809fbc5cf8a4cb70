"""The size that Kafka's Java producer takes a record to have before it writes it.

`max.request.size` and `buffer.memory` are held against this bound: a batch header, 21 bytes for
the record's length, attributes and deltas, whatever they take, and the key, value and headers as
they are written (DefaultRecordBatch.estimateBatchSizeUpperBound).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencepost.batch.header import HEADER_BYTES

RECORD_OVERHEAD_MAX: Final = 21
"""Bytes of a record beside key, value and headers: length and deltas at their longest."""
SHOWN_BYTES: Final = 40
"""Of a key in an error."""
_FIRST_RECORD_BYTES: Final = 3
"""Attributes and the deltas of the first record of a batch."""


def size_bound(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> int:
    """Bytes of a batch with this record alone, at most."""
    size = HEADER_BYTES + RECORD_OVERHEAD_MAX + _nullable(key) + _nullable(value)
    size += varint_size(len(headers))
    return size + sum(_nullable(name.encode()) + _nullable(content) for name, content in headers)


def size_bound_of_first(record_bytes: int) -> int:
    """The same for a record that takes `record_bytes` as the first of a batch, with its length."""
    body = record_bytes - next(
        digits for digits in range(1, 6) if varint_size(record_bytes - digits) <= digits
    )
    return HEADER_BYTES + RECORD_OVERHEAD_MAX + body - _FIRST_RECORD_BYTES


def varint_size(number: int) -> int:
    """Bytes of a number that is not negative, as records have it (zigzag)."""
    return max((number.bit_length() + 7) // 7, 1)


def _nullable(content: bytes | None) -> int:
    return 1 if content is None else varint_size(len(content)) + len(content)


def shown_bytes(content: bytes) -> str:
    """The beginning of a key, for texts."""
    more = "..." if len(content) > SHOWN_BYTES else ""
    return f"{content[:SHOWN_BYTES]!r}{more}"
