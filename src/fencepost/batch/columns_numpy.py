"""Decoding to columns without the compiled kernels: numpy for the numbers, Arrow for the bytes.

Only one thing about records is sequential: where the next begins. A Python loop over the length
varints finds that out for a run of batches; everything else is done for all records of the run at
once. The varints behind the lengths are read column by column, and bytes are not copied one value
at a time: an Arrow array laid over the run's own buffer, with offsets that alternate between what
is wanted and what lies between, is `take`n at the even places.

A run is the uncompressed batches that follow each other in the blob, up to the rows of one record
batch, or one batch's inflated records.

Checks are made over whole runs and only say "sound" or not. What exactly is wrong, and in which
record, is then found by reading the run again with the parser of `walk`, so that faults are
reported exactly as the kernels report them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.batch.columns_request import (
    AbortedTransactions,
    Chunk,
    Chunks,
    DecodeRequest,
    make_headers,
)
from fencepost.batch.errors import BatchError
from fencepost.batch.header import HEADER_BYTES, MAGIC, BatchHeader, iter_headers
from fencepost.batch.walk import (
    MICROSECONDS_PER_MILLISECOND,
    RECORD_BODY_BYTES_MIN,
    InvalidRecord,
    Reason,
    add_timestamp,
    read_headers,
    read_record,
    read_varint,
    record_error,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

Ints = np.ndarray[Any, np.dtype[np.int64]]
Objects = np.ndarray[Any, np.dtype[np.object_]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

MILLISECONDS_MAX = (2**63 - 1) // MICROSECONDS_PER_MILLISECOND


class _Invalid(Exception):
    """Something in a run is wrong; what, is found out by reading it record by record."""


@dataclass(slots=True)
class _Run:
    """Batches whose plain records lie in one buffer."""

    buffer: Buffer
    headers: list[BatchHeader] = field(default_factory=list)
    bounds: list[tuple[int, int]] = field(default_factory=list)
    rows: int = 0

    def add(self, header: BatchHeader, begin: int, end: int) -> None:
        self.headers.append(header)
        self.bounds.append((begin, end))
        self.rows += header.records_count


@dataclass(slots=True)
class _Rows:
    """Rows of one buffer: per row, where its parts lie and its numbers."""

    buffer: Buffer
    offset: Ints
    timestamp: Ints
    timestamp_type: Ints
    key_at: Ints
    key_length: Ints
    value_at: Ints
    value_length: Ints
    headers_at: Ints
    end: Ints
    headers: Objects | None = None

    def pick(self, which: slice | Bools) -> _Rows:
        """These rows of them."""
        names = (each.name for each in fields(self)[1:] if getattr(self, each.name) is not None)
        return _Rows(self.buffer, **{name: getattr(self, name)[which] for name in names})


def decode_chunks(request: DecodeRequest, aborted: AbortedTransactions) -> Chunks:
    """Row counts and columns, as `columns.decode_columns` asks for them."""
    pending: list[_Rows] = []
    rows_left, bytes_left = request.max_rows, request.max_bytes
    message_at: int | None = None
    for run in _iter_runs(request, aborted):
        if isinstance(run, int):
            message_at = run
            break
        rows = _read_run(run, request)
        begin, total = 0, len(rows.offset)
        sizes = _row_sizes(rows, with_headers="headers" in request.columns)
        while begin < total:
            fit = int(np.searchsorted(sizes, sizes[begin] + bytes_left, side="right")) - 1 - begin
            fit = min(fit, rows_left, total - begin)
            if fit == 0 and not pending:
                fit = 1
            if fit:
                pending.append(rows.pick(slice(begin, begin + fit)))
                rows_left -= fit
                bytes_left = max(bytes_left - int(sizes[begin + fit] - sizes[begin]), 0)
                begin += fit
            if begin < total or rows_left == 0:
                yield _build_chunk(pending, request)
                pending = []
                rows_left, bytes_left = request.max_rows, request.max_bytes
    if pending:
        yield _build_chunk(pending, request)
    return message_at


def _row_sizes(rows: _Rows, *, with_headers: bool) -> Ints:
    """Running sum of the rows' bytes, beginning with 0."""
    sizes = np.maximum(rows.key_length, 0) + np.maximum(rows.value_length, 0)
    if with_headers:
        sizes = sizes + rows.end - rows.headers_at
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def _iter_runs(request: DecodeRequest, aborted: AbortedTransactions) -> Iterator[_Run | int]:
    """Runs, up to the end or the position of a message of v0 or v1."""
    run = _Run(request.blob)
    message_at: int | None = None
    try:
        for pos, header in iter_headers(request.blob):
            if header.magic != MAGIC:
                message_at = pos
                break
            if header.base_offset >= request.end_offset:
                break
            wanted = aborted.is_wanted(request.blob, pos, header)
            if not wanted or header.last_offset < request.start_offset:
                continue
            payload = request.payload(pos, header)
            is_inflated = isinstance(payload, bytes)
            if run.headers and (is_inflated or run.rows >= request.max_rows):
                yield run
                run = _Run(request.blob)
            if is_inflated:
                yield _Run(payload, [header], [(0, len(payload))], header.records_count)
            else:
                run.add(header, pos + HEADER_BYTES, pos + header.size_bytes)
    except BatchError:
        # What came before the damage may be damaged too, and is then to be told first.
        if run.headers:
            yield run
        raise
    if run.headers:
        yield run
    if message_at is not None:
        yield message_at


def _read_run(run: _Run, request: DecodeRequest) -> _Rows:
    try:
        return _read_run_at_once(run, request)
    except _Invalid:
        for header, (begin, end) in zip(run.headers, run.bounds, strict=True):
            _explain(run.buffer, begin, end, header, request)
        raise AssertionError("a run was refused in which every record is sound") from None


def _read_run_at_once(run: _Run, request: DecodeRequest) -> _Rows:
    starts: list[int] = []
    for header, (begin, end) in zip(run.headers, run.bounds, strict=True):
        _find_records(run.buffer, begin, end, header.records_count, starts)
    counts = np.array([header.records_count for header in run.headers], np.int64)

    def per_row(values: list[int]) -> Ints:
        return np.repeat(np.array(values, np.int64), counts)

    rows, offset_delta = _read_numbers(
        run.buffer, np.array(starts, np.int64), per_row([end for _, end in run.bounds])
    )
    last_delta = per_row([header.last_offset_delta for header in run.headers])
    if bool(((offset_delta < 0) | (offset_delta > last_delta)).any()):
        raise _Invalid
    rows.offset = per_row([header.base_offset for header in run.headers]) + offset_delta
    by_broker = per_row([header.is_log_append_time for header in run.headers])
    base = per_row(
        [
            header.max_timestamp if header.is_log_append_time else header.base_timestamp
            for header in run.headers
        ]
    )
    rows.timestamp_type = by_broker
    wanted = (rows.offset >= request.start_offset) & (rows.offset < request.end_offset)
    delta = np.where(by_broker == 1, 0, rows.timestamp)
    if not bool(wanted.all()):
        rows, base, delta = rows.pick(wanted), base[wanted], delta[wanted]
    rows.timestamp = base + delta
    if bool((((base ^ rows.timestamp) & (delta ^ rows.timestamp)) < 0).any()):
        raise _Invalid
    if "timestamp" in request.columns:
        if bool((np.abs(rows.timestamp + (rows.timestamp == -(2**63))) > MILLISECONDS_MAX).any()):
            raise _Invalid
        rows.timestamp = rows.timestamp * MICROSECONDS_PER_MILLISECOND
    if "headers" in request.columns:
        rows.headers = _find_headers(rows)
    return rows


def _find_headers(rows: _Rows) -> Objects:
    """Per row, where its headers lie; header by header, but only where there are any."""
    nothing: list[tuple[int, int, int, int]] = []
    buffer = rows.buffer
    found = np.empty(len(rows.end), np.object_)
    places = zip(rows.headers_at.tolist(), rows.end.tolist(), strict=True)
    try:
        for row, (headers_at, end) in enumerate(places):
            if headers_at + 1 == end and buffer[headers_at] == 0:
                found[row] = nothing
            else:
                found[row] = read_headers(buffer, headers_at, end)
    except InvalidRecord:
        raise _Invalid from None
    return found


def _find_records(buffer: Buffer, pos: int, end: int, count: int, starts: list[int]) -> None:
    """Append where each of a batch's records begins: the only loop over records there is."""
    add = starts.append
    try:
        for _ in range(count):
            add(pos)
            low = buffer[pos]
            if low & 1:
                raise _Invalid  # a negative length
            if low < 0x80:
                pos += 1 + (low >> 1)
            elif (high := buffer[pos + 1]) < 0x80:
                pos += 2 + ((low & 0x7F | high << 7) >> 1)
            else:
                length, pos = read_varint(buffer, pos, end)
                pos += length
    except (IndexError, InvalidRecord):
        raise _Invalid from None
    if pos != end:
        raise _Invalid


def _read_numbers(buffer: Buffer, starts: Ints, ends: Ints) -> tuple[_Rows, Ints]:
    """Numbers of the records at `starts`; timestamps are still deltas, as are the offsets beside.

    Reads may run over a record's end, at worst over the buffer's, where they are clipped: positions
    only ever grow, so that one comparison at the end finds all of them out.
    """
    data = np.frombuffer(buffer, np.uint8)
    if len(starts) == 0:
        none = np.zeros(0, np.int64)
        return _Rows(buffer, none, none, none, none, none, none, none, none, none), none
    length, at = _read_varints(data, starts, 5)
    end = at + length
    timestamp_delta, at = _read_varints(data, at + 1, 10)
    offset_delta, at = _read_varints(data, at, 5)
    key_length, key_at = _read_varints(data, at, 5)
    value_length, value_at = _read_varints(data, key_at + np.maximum(key_length, 0), 5)
    headers_at = value_at + np.maximum(value_length, 0)
    is_invalid = (
        (length < RECORD_BODY_BYTES_MIN)
        | (end > ends)
        | (key_length < -1)
        | (value_length < -1)
        | (headers_at > end)
    )
    if bool(is_invalid.any()):
        raise _Invalid
    zeros = np.zeros(0, np.int64)
    rows = _Rows(
        buffer,
        zeros,
        timestamp_delta,
        zeros,
        key_at,
        key_length,
        value_at,
        value_length,
        headers_at,
        end,
    )
    return rows, offset_delta


def _read_varints(data: np.ndarray[Any, Any], at: Ints, bytes_max: int) -> tuple[Ints, Ints]:
    """The zigzag varints at `at`, and the positions behind them."""
    last = len(data) - 1
    byte = data[np.minimum(at, last)]
    raw = (byte & 0x7F).astype(np.uint64)
    behind = at + 1
    more = np.flatnonzero(byte & 0x80)
    for index in range(1, bytes_max):
        if len(more) == 0:
            break
        byte = data[np.minimum(behind[more], last)]
        raw[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        behind[more] += 1
        if index == bytes_max - 1 and bool((byte > (0x0F if bytes_max == 5 else 0x01)).any()):
            raise _Invalid
        more = more[byte >= 0x80]
    if len(more):
        raise _Invalid
    value = (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64)
    return value, behind


def _explain(
    buffer: Buffer, begin: int, end: int, header: BatchHeader, request: DecodeRequest
) -> None:
    """Raise the error for the first invalid record in a batch's records, if there is one."""
    index, pos = 0, begin
    try:
        while index < header.records_count:
            pos = _check_record(buffer, pos, end, header, request)
            index += 1
        if pos != end:
            raise InvalidRecord(Reason.BATCH_REST, end - pos)
    except InvalidRecord as invalid:
        raise record_error(
            (invalid.reason, index, pos - begin, invalid.detail),
            code=ErrorCode.CORRUPT_MESSAGE,
            offset=header.base_offset,
        ) from None


def _check_record(
    buffer: Buffer, pos: int, end: int, header: BatchHeader, request: DecodeRequest
) -> int:
    record = read_record(buffer, pos, end)
    if not 0 <= record.offset_delta <= header.last_offset_delta:
        raise InvalidRecord(Reason.OFFSET_DELTA, record.offset_delta)
    offset = header.base_offset + record.offset_delta
    if request.start_offset <= offset < request.end_offset:
        timestamp = header.max_timestamp
        if not header.is_log_append_time:
            timestamp = add_timestamp(header.base_timestamp, record.timestamp_delta)
        if "timestamp" in request.columns and abs(timestamp) > MILLISECONDS_MAX:
            raise InvalidRecord(Reason.MICROSECONDS, timestamp)
        if "headers" in request.columns:
            read_headers(buffer, record.headers_at, record.end)
    return record.end


def _build_chunk(pieces: list[_Rows], request: DecodeRequest) -> tuple[int, Chunk]:
    columns: dict[str, list[pa.Array]] = {
        name: [] for name in request.columns - {"topic", "partition"}
    }
    for rows in pieces:
        if "key" in columns or "value" in columns:
            key, value = _take_bytes(rows)
            for name, array in (("key", key), ("value", value)):
                if name in columns:
                    columns[name].append(array)
        if "offset" in columns:
            columns["offset"].append(pa.array(rows.offset))
        if "timestamp" in columns:
            kind = pa.timestamp("us", tz="UTC")
            columns["timestamp"].append(pa.array(rows.timestamp).cast(kind))
        if "timestampType" in columns:
            columns["timestampType"].append(pa.array(rows.timestamp_type.astype(np.int32)))
        if "headers" in columns:
            columns["headers"].append(_build_headers(rows))
    count = sum(len(rows.offset) for rows in pieces)
    return count, {
        name: arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        for name, arrays in columns.items()
    }


def _take_bytes(rows: _Rows) -> tuple[pa.Array, pa.Array]:
    """Keys and values, copied out of the buffer by Arrow."""
    count = len(rows.key_at)
    ends = np.empty(4 * count + 1, np.int32)
    ends[0:-1:4] = rows.key_at
    ends[1::4] = rows.key_at + np.maximum(rows.key_length, 0)
    ends[2::4] = rows.value_at
    ends[3::4] = rows.headers_at
    ends[-1] = ends[-2]
    over = pa.Array.from_buffers(
        pa.binary(), 4 * count, [None, pa.py_buffer(ends), pa.py_buffer(rows.buffer)], 0
    )
    places = np.arange(0, 4 * count, 4, dtype=np.int32)
    return (
        over.take(pa.array(places, mask=rows.key_length < 0)),
        over.take(pa.array(places + 2, mask=rows.value_length < 0)),
    )


def _build_headers(rows: _Rows) -> pa.Array:
    assert rows.headers is not None
    buffer = rows.buffer
    keys: list[bytes] = []
    values: list[bytes | None] = []
    ends, valid = [0], []
    for found in rows.headers:
        for key_at, key_length, value_at, value_length in found:
            keys.append(bytes(buffer[key_at : key_at + key_length]))
            value_end = value_at + value_length
            values.append(None if value_length < 0 else bytes(buffer[value_at:value_end]))
        valid.append(bool(found))
        ends.append(len(keys))
    return make_headers(
        len(valid),
        valid.count(False),
        [
            pa.py_buffer(np.packbits(np.array(valid, np.bool_), bitorder="little")),
            pa.py_buffer(np.array(ends, np.int32)),
        ],
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
    )
