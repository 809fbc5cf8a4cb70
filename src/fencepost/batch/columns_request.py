"""What both decoders to columns share: the schema, what is asked for, and aborted transactions."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop

import pyarrow as pa

from fencepost.batch.control import read_control
from fencepost.batch.header import BatchHeader, require_crc
from fencepost.batch.records import read_payload
from fencepost.wire.types import Buffer

HEADERS_TYPE = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS_TYPE),
    ]
)
"""All columns there are; without `include_headers` the last is left out."""

AbortedTransaction = tuple[int, int]
"""Producer id and first offset, as a fetch answer lists them."""


Chunk = dict[str, pa.Array]
Chunks = Generator[tuple[int, Chunk], None, int | None]
"""Row counts and columns; at its end the position of a message of v0 or v1, if that stopped it."""


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """What a backend needs to know to turn a blob into columns."""

    blob: Buffer
    start_offset: int
    end_offset: int
    columns: frozenset[str]
    max_rows: int
    max_bytes: int
    check_crc: bool
    max_decompressed_bytes: int

    def payload(self, pos: int, header: BatchHeader) -> bytes | memoryview:
        """The records of the batch at `pos`, checked and inflated. Raises BatchError."""
        if self.check_crc:
            require_crc(self.blob, pos, header)
        return read_payload(self.blob, pos, header, self.max_decompressed_bytes)


class AbortedTransactions:
    """Follows a blob's batches in order and says which belong to no aborted transaction.

    A transaction is aborted from its first offset to its marker (KIP-98); the same producer may
    have committed before and after.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._pending = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapify(self._pending)
        self._open: set[int] = set()
        self.any = bool(self._pending)

    def is_wanted(self, blob: Buffer, pos: int, header: BatchHeader) -> bool:
        """Whether the batch's records are to be given; also False for control batches."""
        while self._pending and self._pending[0][0] <= header.last_offset:
            self._open.add(heappop(self._pending)[1])
        if header.is_control:
            if header.producer_id in self._open and _is_abort_marker(blob, pos, header):
                self._open.discard(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in self._open)


def _is_abort_marker(blob: Buffer, pos: int, header: BatchHeader) -> bool:
    from fencepost.wire.records.control import ControlType

    records = read_control(memoryview(blob)[pos : pos + header.size_bytes])
    return any(record.type == ControlType.ABORT for record in records)


def make_headers(
    rows: int, rows_without: int, buffers: list[pa.Buffer], keys: pa.Array, values: pa.Array
) -> pa.Array:
    """The headers column of a list level (validity, ends) and its keys and values.

    Keys as bytes become strings with U+FFFD where they are not UTF-8, as Kafka's clients do it.
    """
    if pa.types.is_binary(keys.type):
        keys = pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    return pa.Array.from_buffers(HEADERS_TYPE, rows, buffers, rows_without, children=[pairs])
