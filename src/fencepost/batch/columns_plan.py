"""What the two backends of `columns_encode` agree on: rows as they take them, batches as they plan.

A plan says which rows a batch has and what it will take, before a byte of it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

Ints = np.ndarray[Any, np.dtype[Any]]


class Rows(NamedTuple):
    """Columns in a form with few kinds: bytes where the user had strings, times in ms."""

    row_count: int
    key: pa.BinaryArray | None
    value: pa.BinaryArray | None
    timestamps: Ints
    headers: pa.ListArray | None


class Plan(NamedTuple):
    """A batch of the rows from `begin` to `end`, in the order of writing.

    `too_large_bytes` is not 0 when not even the first row fits, and is then that row's size;
    such a plan has no rows.
    """

    begin: int
    end: int
    payload_bytes: int
    too_large_bytes: int
    base_timestamp: int
    max_timestamp: int


class Writer(Protocol):
    """Cuts rows into batches and writes their records."""

    def write(self, begin: int, end: int, payload_max: int) -> Iterator[tuple[Plan, bytearray]]:
        """Every batch of the rows from `begin` to `end`, with 61 bytes for its header in front.

        A row that does not fit into `payload_max` bytes ends the iteration with a plan that says
        so.
        """
