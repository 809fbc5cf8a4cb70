"""Arrow columns into record batches: for producers that have many rows at once.

Rows go to their partitions, whose rows keep their order, and become batches of at most so many
bytes before compression, cut greedily: a batch takes rows until the next would not fit. Offsets,
leader epoch and producer fields are left as a producer sends them (0, -1, -1): the producer stamps
a batch before it sends it (`header.stamp_producer`), so the batch can be encoded before its
sequence number is known.

The kernels in `_encode.h` and `columns_encode_numpy` write the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.batch import backend
from fencepost.batch.columns_plan import Ints, Plan, Rows, Writer
from fencepost.batch.compression import codec_of
from fencepost.batch.errors import RowTooLargeError
from fencepost.batch.header import (
    HEADER_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
)
from fencepost.batch.record_size import size_bound_of_first
from fencepost.batch.records import assemble, finish

BATCH_BYTES = 1024 * 1024
"""Default size of a batch before compression, just below what Kafka's topics take by default."""

_BATCH_BYTES_MAX = 2**31 - 1
_MILLISECONDS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
_COUNTED_PARTITIONS_MAX = 1 << 20


class EncodedBatch(NamedTuple):
    """A batch for a partition; `data` is writable, so that it can be stamped."""

    partition: int
    data: bytearray
    records_count: int
    max_timestamp: int


def encode_columns(
    rows: pa.RecordBatch,
    partitions: int | pa.Array | Ints,
    *,
    timestamp_ms: int,
    max_batch_bytes: int = BATCH_BYTES,
    max_record_bytes: int = 0,
    compression: str | int = "none",
    level: int | None = None,
) -> list[EncodedBatch]:
    """Batches of all `rows`, by partition and in the order of the rows.

    Columns: `value` and, if there, `key` (string or binary, nullable), `headers`
    (list<struct<key string, value binary>>) and `timestamp` (a timestamp of any unit, or int64
    ms). Other columns are not looked at. `partitions` is one partition for all rows or one per row.
    `timestamp_ms` is for rows without a timestamp. `max_batch_bytes` bounds a batch before
    compression; `compression` and `level` as in `compression.compress`.

    Raises ValueError or TypeError naming the column for what cannot be a record's; BatchError
    MESSAGE_TOO_LARGE, naming the row, for a row that is larger than a batch may be.
    """
    codec = codec_of(compression)
    if max_batch_bytes <= HEADER_BYTES:
        raise ValueError(f"max_batch_bytes {max_batch_bytes} leaves no room behind the header")
    payload_max = min(max_batch_bytes, _BATCH_BYTES_MAX) - HEADER_BYTES
    prepared = _prepare(rows, timestamp_ms)
    order, groups = _group(partitions, prepared.row_count)
    writer: Writer
    if backend.kernels is None:
        from fencepost.batch.columns_encode_numpy import RowWriter

        writer = RowWriter(prepared, order)
    else:
        writer = _CompiledWriter(prepared, order)
    encoded = []
    for partition, begin, end in groups:
        limits = payload_max, max_record_bytes
        for plan, data in _plans(writer, order, begin, end, limits):
            header = _header(plan, codec)
            if codec:
                data = assemble(header, memoryview(data)[HEADER_BYTES:], level)
            else:
                finish(data, header)
            encoded.append(
                EncodedBatch(partition, data, header.records_count, header.max_timestamp)
            )
    return encoded


def _plans(
    writer: Writer, order: Ints | None, begin: int, end: int, limits: tuple[int, int]
) -> Iterator[tuple[Plan, bytearray]]:
    """The batches of these rows, those of one row too large for others among them."""
    payload_max, record_max = limits
    while begin < end:
        for plan, data in writer.write(begin, end, payload_max):
            if not plan.too_large_bytes:
                yield plan, data
                begin = plan.end
                continue
            size_bytes = size_bound_of_first(plan.too_large_bytes)
            if size_bytes > record_max:
                row = begin if order is None else int(order[begin])
                raise RowTooLargeError(row, size_bytes, max(record_max, payload_max + HEADER_BYTES))
            yield from writer.write(begin, begin + 1, plan.too_large_bytes)
            begin += 1


def _header(plan: Plan, codec: int) -> BatchHeader:
    count = plan.end - plan.begin
    return BatchHeader(
        base_offset=0,
        batch_length=0,
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=plan.base_timestamp,
        max_timestamp=plan.max_timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=count,
    )


def partition_columns(keys: pa.Array, partitions: int) -> pa.Int32Array:
    """The partition of every key, as Kafka's Java client chooses it; null for null keys.

    `keys` is string or binary. Raises ValueError for fewer than one partition.
    """
    if partitions < 1:
        raise ValueError(f"a topic has at least one partition, not {partitions}")
    array = _as_binary(keys, "key")
    if array is None:
        return pa.nulls(len(keys), pa.int32())
    kernels: Any = backend.kernels
    if kernels is None:
        from fencepost.batch.columns_encode_numpy import partition_keys

        found = partition_keys(array, partitions)
    else:
        found = np.empty(len(array), np.int32)
        kernels.partition_keys(_parts(array), len(array), partitions, found)
    return pa.array(found, mask=found < 0 if array.null_count else None)


def _prepare(rows: pa.RecordBatch, timestamp_ms: int) -> Rows:
    names = rows.schema.names
    if "value" not in names:
        raise ValueError(f"there is no column 'value' among {', '.join(names) or 'none'}")
    rows.validate()
    return Rows(
        rows.num_rows,
        _as_binary(rows.column("key"), "key") if "key" in names else None,
        _as_binary(rows.column("value"), "value"),
        _timestamps(rows, timestamp_ms),
        _as_headers(rows.column("headers")) if "headers" in names else None,
    )


def _as_binary(array: pa.Array, name: str) -> pa.BinaryArray | None:
    """The column as binary, None if it is all null. Strings are not copied."""
    kind = array.type
    if pa.types.is_null(kind):
        return None
    if pa.types.is_binary(kind):
        return array
    if isinstance(array, pa.DictionaryArray):
        return _as_binary(array.dictionary_decode(), name)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_text = is_text or pa.types.is_string_view(kind)
    is_bytes = pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    if not (is_text or is_bytes or pa.types.is_fixed_size_binary(kind)):
        raise TypeError(f"column {name!r} is {kind}, not string or binary")
    if pa.types.is_string_view(kind):
        array = array.cast(pa.string())
    return array.cast(pa.binary())


def _timestamps(rows: pa.RecordBatch, timestamp_ms: int) -> Ints:
    if "timestamp" not in rows.schema.names:
        return np.full(rows.num_rows, timestamp_ms, np.int64)
    column = rows.column("timestamp")
    if pa.types.is_timestamp(column.type):
        times, per = _MILLISECONDS[column.type.unit]
    elif pa.types.is_int64(column.type):
        times, per = 1, 1
    else:
        raise TypeError(f"column 'timestamp' is {column.type}, not a timestamp or int64 (ms)")
    numbers = column.cast(pa.int64())
    if times != 1:
        import pyarrow.compute as pc  # takes longer to load than all that readers need of this

        try:
            numbers = pc.multiply_checked(numbers, times)
        except pa.ArrowInvalid:
            raise ValueError("column 'timestamp' does not fit into 64 bits of ms") from None
    found = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    if per != 1:
        found = np.floor_divide(found, per)
    if column.null_count:
        found = np.where(column.is_null().to_numpy(zero_copy_only=False), timestamp_ms, found)
    return np.ascontiguousarray(found, np.int64)


def _as_headers(array: pa.Array) -> pa.ListArray | None:
    """The column as list<struct<key binary, value binary>>, None if it is all null."""
    kind = array.type
    if pa.types.is_null(kind):
        return None
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not (
        pa.types.is_struct(kind.value_type)
        and {field.name for field in kind.value_type} == {"key", "value"}
    ):
        raise TypeError(f"column 'headers' is {kind}, not list<struct<key, value>>")
    if pa.types.is_large_list(kind):
        array = array.cast(pa.list_(kind.value_type))
    pairs = array.values
    keys, values = pairs.field("key"), pairs.field("value")
    used = array.flatten()
    if used.null_count or used.field("key").null_count:
        raise ValueError("column 'headers' has a header that is null, or has no key")
    keys, values = _as_binary(keys, "headers.key"), _as_binary(values, "headers.value")
    if keys is None:  # no header anywhere, as none is null
        return None
    if values is None:
        values = pa.nulls(len(keys), pa.binary())
    pairs = pa.StructArray.from_arrays([keys, values], names=["key", "value"])
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(
        pa.list_(pairs.type), len(array), buffers, array.null_count, array.offset, [pairs]
    )


def _group(
    partitions: int | pa.Array | Ints, count: int
) -> tuple[Ints | None, Iterator[tuple[int, int, int]]]:
    """Row numbers sorted by partition (None: as they are), and (partition, begin, end) of each."""
    if isinstance(partitions, int):
        if not 0 <= partitions < 2**31:
            raise ValueError(f"there is no partition {partitions}")
        return None, iter([(partitions, 0, count)])
    if isinstance(partitions, pa.Array | pa.ChunkedArray):
        if partitions.null_count:
            raise ValueError(f"{partitions.null_count} rows have no partition")
        partitions = partitions.to_numpy(zero_copy_only=False)
    if len(partitions) != count:
        raise ValueError(f"{len(partitions)} partitions for {count} rows")
    if count == 0:
        return None, iter(())
    least, most = int(partitions.min()), int(partitions.max())
    if least < 0 or most >= 2**31:
        raise ValueError(f"there is no partition {least if least < 0 else most}")
    if least == most:
        return None, iter([(least, 0, count)])
    numbers = np.ascontiguousarray(partitions, np.int32)
    return _sort(numbers, most + 1)


def _sort(numbers: Ints, bound: int) -> tuple[Ints, Iterator[tuple[int, int, int]]]:
    kernels: Any = backend.kernels
    count = len(numbers)
    if kernels is not None and bound <= _COUNTED_PARTITIONS_MAX:
        order = np.empty(count, np.int32)
        ends = np.empty(bound, np.int64)
        kernels.order_by_partition(numbers, count, bound, ends, order)
    else:
        narrow = numbers.astype(np.uint16) if bound <= 1 << 16 else numbers
        order = np.argsort(narrow, kind="stable").astype(np.int32)
    ordered = numbers[order]
    edges = np.flatnonzero(np.diff(ordered)) + 1
    bounds = [0, *edges.tolist(), count]
    return order, ((int(ordered[begin]), begin, end) for begin, end in pairwise(bounds))


_Parts = tuple[pa.Buffer, pa.Buffer | None, pa.Buffer | None, int]


def _parts(array: pa.BinaryArray) -> _Parts:
    valid, ends, data = array.buffers()
    return ends, data, valid, array.offset


class _CompiledWriter:
    """The kernels' `RowEncoder`, one batch after the other."""

    def __init__(self, rows: Rows, order: Ints | None) -> None:
        headers = None
        if rows.headers is not None:
            valid, ends = rows.headers.buffers()[:2]
            keys, values = rows.headers.values.field("key"), rows.headers.values.field("value")
            headers = (ends, valid, rows.headers.offset, _parts(keys), len(keys), _parts(values))
        self._encoder = backend.kernels.RowEncoder(
            rows.row_count,
            None if rows.key is None else _parts(rows.key),
            None if rows.value is None else _parts(rows.value),
            rows.timestamps,
            headers,
            order,
        )

    def write(self, begin: int, end: int, payload_max: int) -> Iterator[tuple[Plan, bytearray]]:
        """See `columns_plan.Writer`."""
        while begin < end:
            plan = Plan(begin, *self._encoder.plan_batch(begin, end, payload_max))
            if plan.too_large_bytes:
                yield plan, bytearray()
                return
            yield plan, self._encoder.write_batch(HEADER_BYTES)
            begin = plan.end
