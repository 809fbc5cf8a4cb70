"""Messages of formats v0 and v1 as columns: record by record, for logs that have seen an upgrade.

Producers have written v2 since Kafka 0.11, so this is as short as can be, and a hundred times
slower per record than the compiled way of v2.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import pyarrow as pa

from fencepost.batch.columns_request import SCHEMA, Chunk, DecodeRequest
from fencepost.batch.errors import BatchError
from fencepost.batch.header import MAGIC, MAGIC_AT, iter_headers, require_crc
from fencepost.batch.legacy import read_messages
from fencepost.batch.record import Record
from fencepost.batch.walk import MICROSECONDS_PER_MILLISECOND
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

MILLISECONDS_MAX = (2**63 - 1) // MICROSECONDS_PER_MILLISECOND


def is_message(blob: Buffer, pos: int) -> bool:
    """Whether what begins at `pos` is not a batch but a message, as far as it shows its magic."""
    return len(blob) - pos > MAGIC_AT and blob[pos + MAGIC_AT] < MAGIC


def decode_messages(
    request: DecodeRequest, pos: int
) -> Generator[tuple[int, Chunk], None, int | None]:
    """Row counts and columns of the messages from `pos` on; returns where the next v2 batch begins.

    None if there is none, or nothing more is wanted. Raises BatchError.
    """
    rows: list[Record] = []
    rows_bytes = 0
    for record, following in _iter_records(request, pos):
        if record is None:
            if rows:
                yield len(rows), _build_chunk(rows, request)
            return following
        size_bytes = len(record.key or b"") + len(record.value or b"")
        if rows and (len(rows) == request.max_rows or rows_bytes + size_bytes > request.max_bytes):
            yield len(rows), _build_chunk(rows, request)
            rows, rows_bytes = [], 0
        rows.append(record)
        rows_bytes += size_bytes
    if rows:
        yield len(rows), _build_chunk(rows, request)
    return None


def _iter_records(
    request: DecodeRequest, pos: int
) -> Generator[tuple[Record, None] | tuple[None, int], None, None]:
    """The wanted records, and at last the position of the v2 batch that ends the messages."""
    blob = request.blob
    for at, header in iter_headers(blob, pos):
        if header.magic == MAGIC:
            yield None, at
            return
        if -1 < header.last_offset < request.start_offset:
            continue
        if request.check_crc:
            require_crc(blob, at, header)
        records = read_messages(
            blob, at, header, max_decompressed_bytes=request.max_decompressed_bytes
        )
        for record in records:
            if record.offset >= request.end_offset:
                return
            if record.offset >= request.start_offset:
                yield record, None


def _build_chunk(rows: Sequence[Record], request: DecodeRequest) -> Chunk:
    values: dict[str, Callable[[], list[Any]]] = {
        "key": lambda: [row.key for row in rows],
        "value": lambda: [row.value for row in rows],
        "offset": lambda: [row.offset for row in rows],
        "timestamp": lambda: [_microseconds(row) for row in rows],
        "timestampType": lambda: [row.timestamp_type for row in rows],
        "headers": lambda: [None] * len(rows),
    }
    return {
        name: pa.array(give(), SCHEMA.field(name).type)
        for name, give in values.items()
        if name in request.columns
    }


def _microseconds(row: Record) -> int:
    if abs(row.timestamp_ms) > MILLISECONDS_MAX:
        raise BatchError(
            ErrorCode.INVALID_TIMESTAMP,
            f"its timestamp of {row.timestamp_ms} ms does not fit into 64 bits of microseconds",
            offset=row.offset,
        )
    return row.timestamp_ms * MICROSECONDS_PER_MILLISECOND
