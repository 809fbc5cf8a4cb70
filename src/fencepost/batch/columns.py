"""Whole fetch answers into Arrow record batches, and Arrow into batches for a producer.

The only way through this package that needs pyarrow and numpy, so neither the broker nor its tools
import it. Columns are those of Spark's Kafka source, in its types and order:

    key binary, value binary, topic string, partition int32, offset int64,
    timestamp timestamp[us, UTC], timestampType int32 (0 the producer's, 1 the broker's clock),
    headers list<struct<key string, value binary>>, null for a record without any

all nullable, of which any may be left out. Decoding goes batch by batch: header, CRC, decompression
within a limit, records into rows, until a record batch has its number of rows or bytes; a fetch
answer is never held in any other form. Control batches have no rows; batches of aborted
transactions have none either, if the broker's list of them is given.

A batch is read only once its CRC holds. What is damaged raises BatchError with the batch's offset;
record batches given before it stand, rows not yet given are not given.

This module decides; `_columns.h` (compiled) or `columns_numpy` does the work, with equal results.
Where a blob has messages of formats v0 or v1, these hand over to `columns_legacy` and get back what
is behind them; timestampType is -1 and timestamp -1 ms for v0, as in Kafka's clients. Encoding is
in `columns_encode`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from fencepost.batch import backend
from fencepost.batch.columns_encode import EncodedBatch, encode_columns, partition_columns
from fencepost.batch.columns_legacy import decode_messages, is_message
from fencepost.batch.columns_request import (
    HEADERS_TYPE,
    SCHEMA,
    AbortedTransaction,
    AbortedTransactions,
    Chunk,
    Chunks,
    DecodeRequest,
    make_headers,
)
from fencepost.batch.compression import DECOMPRESSED_BYTES_MAX
from fencepost.batch.header import OFFSET_MAX, read_header, require_crc
from fencepost.batch.walk import record_error
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

ROWS_MAX = 65536
BYTES_MAX = 16 * 1024 * 1024
_BYTES_MAX_MAX = 1 << 30  # Arrow's binary type counts bytes in 32 bits


def decode_columns(
    blob: Buffer,
    *,
    topic: str,
    partition: int,
    start_offset: int = 0,
    end_offset: int | None = None,
    include_headers: bool = False,
    columns: Sequence[str] | None = None,
    arrow_schema: pa.Schema | None = None,
    max_rows: int = ROWS_MAX,
    max_bytes: int = BYTES_MAX,
    aborted: Iterable[AbortedTransaction] = (),
    check_crc: bool = True,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """The records of `blob` with start_offset <= offset < end_offset, as record batches.

    `blob` is the records field of one partition of a fetch answer: whole batches, the last of
    which may be cut and is then not read (`header.measure` says where to fetch next). Which columns
    and in which order: those of `arrow_schema`, else those named in `columns`, else all, with
    headers if `include_headers`. A record batch has at most `max_rows` rows, and more than
    `max_bytes` of keys, values and headers only if it is a single row. `aborted` lists (producer
    id, first offset) of aborted transactions for a reader of committed records.

    Raises ValueError at once for a column that does not exist or has another type; while reading,
    BatchError for damaged batches, also INVALID_TIMESTAMP for a timestamp that cannot be told in
    microseconds, and MESSAGE_TOO_LARGE past `max_decompressed_bytes` for one batch.
    """
    if max_rows < 1 or max_bytes < 1:
        raise ValueError(f"max_rows {max_rows} and max_bytes {max_bytes} must be positive")
    if len(blob) > 2**31 - 1:
        raise ValueError(f"a blob of {len(blob)} bytes; at most 2 GiB can be decoded at once")
    schema = _choose_schema(arrow_schema, columns, include_headers)
    request = DecodeRequest(
        blob=blob,
        start_offset=start_offset,
        end_offset=OFFSET_MAX if end_offset is None else end_offset,
        columns=frozenset(schema.names),
        max_rows=min(max_rows, 2**31 - 1),
        max_bytes=min(max_bytes, _BYTES_MAX_MAX),
        check_crc=check_crc,
        max_decompressed_bytes=max_decompressed_bytes,
    )
    return _decode(request, AbortedTransactions(aborted), schema, topic, partition)


def _decode(
    request: DecodeRequest,
    aborted: AbortedTransactions,
    schema: pa.Schema,
    topic: str,
    partition: int,
) -> Iterator[pa.RecordBatch]:
    for rows, chunk in _decode_chunks(request, aborted):
        if "topic" in request.columns:
            chunk["topic"] = _topic_column(topic, _power_of_two(rows)).slice(0, rows)
        if "partition" in request.columns:
            chunk["partition"] = _partition_column(partition, _power_of_two(rows)).slice(0, rows)
        yield pa.RecordBatch.from_arrays([chunk[name] for name in schema.names], schema=schema)


def _choose_schema(
    arrow_schema: pa.Schema | None, columns: Sequence[str] | None, include_headers: bool
) -> pa.Schema:
    if arrow_schema is None:
        if columns is None:
            return SCHEMA if include_headers else SCHEMA.remove(len(SCHEMA) - 1)
        for name in columns:
            if name not in SCHEMA.names:
                raise ValueError(f"there is no column {name!r}, only {', '.join(SCHEMA.names)}")
        return pa.schema([SCHEMA.field(name) for name in columns])
    for field in arrow_schema:
        if field.name not in SCHEMA.names:
            raise ValueError(f"there is no column {field.name!r}, only {', '.join(SCHEMA.names)}")
        if field.type != SCHEMA.field(field.name).type:
            wanted = SCHEMA.field(field.name).type
            raise ValueError(f"column {field.name!r} is {wanted}, not {field.type}")
    return arrow_schema


# Constant columns are kept, because every blob of a partition wants the same ones. They are made of
# buffers: where it is to make a scalar or an array of Python's objects, Arrow loads pandas first.
@lru_cache(maxsize=8)
def _topic_column(topic: str, rows: int) -> pa.Array:
    data = topic.encode()
    ends = struct.pack("=2i", 0, len(data))
    return _repeated(pa.string(), [None, pa.py_buffer(ends), pa.py_buffer(data)], rows)


@lru_cache(maxsize=8)
def _partition_column(partition: int, rows: int) -> pa.Array:
    return _repeated(pa.int32(), [None, pa.py_buffer(struct.pack("=i", partition))], rows)


def _repeated(kind: pa.DataType, buffers: list[pa.Buffer | None], rows: int) -> pa.Array:
    return pa.repeat(pa.Array.from_buffers(kind, 1, buffers)[0], rows)


def _power_of_two(rows: int) -> int:
    return 1 << max(rows - 1, 0).bit_length()


def _decode_chunks(
    request: DecodeRequest, aborted: AbortedTransactions
) -> Iterator[tuple[int, Chunk]]:
    if backend.kernels is None:
        from fencepost.batch.columns_numpy import decode_chunks as decode
    else:
        decode = _decode_chunks_compiled
    while (message_at := (yield from decode(request, aborted))) is not None:
        batch_at = yield from decode_messages(request, message_at)
        if batch_at is None:
            return
        request = replace(request, blob=memoryview(request.blob)[batch_at:])


def _decode_chunks_compiled(request: DecodeRequest, aborted: AbortedTransactions) -> Chunks:
    kernels: Any = backend.kernels
    scanner = kernels.RowScanner(
        request.blob,
        request.start_offset,
        request.end_offset,
        request.max_rows,
        request.max_bytes,
        want_headers="headers" in request.columns,
        want_micros="timestamp" in request.columns,
        check_crc=request.check_crc,
        ask_transactional=aborted.any,
    )
    message_at: int | None = None
    while (event := scanner.advance()) != kernels.END:
        if event == kernels.FULL:
            yield scanner.row_count, _take_chunk(scanner, request.columns)
            scanner.clear(keep_last=True)
        elif event == kernels.BATCH:
            _decide_batch(scanner, request, aborted)
        elif event == kernels.NO_MEMORY:
            raise MemoryError(f"no memory for {scanner.row_count} rows")
        elif event == kernels.BAD_BATCH and is_message(request.blob, scanner.position):
            message_at = scanner.position
            break
        else:
            _raise_fault(scanner, request, is_record=event == kernels.BAD_RECORD)
    if scanner.row_count:
        yield scanner.row_count, _take_chunk(scanner, request.columns)
    return message_at


def _decide_batch(scanner: Any, request: DecodeRequest, aborted: AbortedTransactions) -> None:
    """A batch that the scanner leaves to us: compressed, or to be held against aborted ones."""
    pos = scanner.position
    header = read_header(request.blob, pos)
    if not aborted.is_wanted(request.blob, pos, header) or (
        header.last_offset < request.start_offset
    ):
        scanner.skip_batch()
        return
    payload = request.payload(pos, header)
    scanner.take_batch(payload if isinstance(payload, bytes) else None)


def _raise_fault(scanner: Any, request: DecodeRequest, *, is_record: bool) -> None:
    if is_record:
        raise record_error(
            scanner.report, code=ErrorCode.CORRUPT_MESSAGE, offset=scanner.base_offset
        )
    header = read_header(request.blob, scanner.position)
    require_crc(request.blob, scanner.position, header)
    raise AssertionError(f"the kernel refused a sound batch at byte {scanner.position}")


def _take_chunk(scanner: Any, columns: frozenset[str]) -> Chunk:
    rows = scanner.row_count
    key_sizes, value_sizes, list_facts, *header_sizes = scanner.sizes()
    chunk: Chunk = {}
    for name, sizes in (("key", key_sizes), ("value", value_sizes)):
        if name in columns:
            chunk[name] = _take_binary(
                rows, sizes, lambda *to, n=name: scanner.fill_pairs(False, n == "value", *to)
            )
    numbers = {
        name: pa.allocate_buffer(rows * kind.bit_width // 8)
        for name, kind in _NUMBERS.items()
        if name in columns
    }
    scanner.fill_numbers(*(numbers.get(name) for name in _NUMBERS))
    for name, buffer in numbers.items():
        chunk[name] = pa.Array.from_buffers(_NUMBERS[name], rows, [None, buffer], 0)
    if "headers" in columns:
        chunk["headers"] = _take_headers(scanner, rows, list_facts, header_sizes)
    return chunk


_NUMBERS = {name: SCHEMA.field(name).type for name in ("offset", "timestamp", "timestampType")}


def _take_binary(
    count: int,
    sizes: tuple[int, int],
    fill: Callable[..., None],
    kind: pa.DataType = SCHEMA[0].type,
) -> pa.Array:
    data_bytes, nulls = sizes
    ends = pa.allocate_buffer(4 * (count + 1))
    data = pa.allocate_buffer(data_bytes)
    valid = pa.allocate_buffer((count + 7) // 8) if nulls else None
    fill(ends, data, valid)
    return pa.Array.from_buffers(kind, count, [valid, ends, data], nulls)


def _take_headers(
    scanner: Any,
    rows: int,
    list_facts: tuple[int, int, bool],
    sizes: Sequence[tuple[int, int]],
) -> pa.Array:
    count, rows_without, keys_ascii = list_facts
    kind = pa.string() if keys_ascii else pa.binary()
    keys = _take_binary(count, sizes[0], lambda *to: scanner.fill_pairs(True, False, *to), kind)
    values = _take_binary(count, sizes[1], lambda *to: scanner.fill_pairs(True, True, *to))
    ends = pa.allocate_buffer(4 * (rows + 1))
    valid = pa.allocate_buffer((rows + 7) // 8)
    scanner.fill_lists(ends, valid)
    return make_headers(rows, rows_without, [valid, ends], keys, values)


__all__ = [
    "HEADERS_TYPE",
    "SCHEMA",
    "EncodedBatch",
    "decode_columns",
    "encode_columns",
    "partition_columns",
]
