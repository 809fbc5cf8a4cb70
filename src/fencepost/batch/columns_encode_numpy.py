"""Encoding columns without the compiled kernels: numpy for the varints, Arrow to join the pieces.

A record is five pieces, each an Arrow binary column for a whole batch: the numbers up to the key's
length, the key, the value's length, the value, and the headers. Joined row by row by Arrow they are
the batch's records, in one buffer. Varints are written column by column into a matrix of ten bytes
per number, of which a mask takes the ones that count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.batch.columns_plan import Plan, Rows
from fencepost.batch.header import HEADER_BYTES, NO_TIMESTAMP
from fencepost.batch.record_writer import append_varint

Ints = np.ndarray[Any, np.dtype[Any]]

_SEED = 0x9747B28C
_MULTIPLIER = np.uint32(0x5BD1E995)
# Below so many keys with bytes left, numpy's overhead per step is more than a Python loop's.
_KEYS_AT_ONCE_MIN = 16
# Records written at once at most, give or take one batch.
_WRITE_BYTES = 32 * 1024 * 1024


def zigzag(values: Ints) -> Ints:
    """Signed numbers as the unsigned ones a varint has."""
    wide = values.astype(np.int64)
    raw: Ints = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
    return raw


def varint_sizes(values: Ints) -> Ints:
    """How many bytes each number takes as a varint."""
    raw = zigzag(values)
    sizes = np.ones(len(raw), np.int64)
    for bits in range(7, 64, 7):
        more = raw >> np.uint64(bits) != 0
        if not bool(more.any()):
            break
        sizes += more
    return sizes


def _varints(columns: list[Ints], first: int | None = None) -> pa.Array:
    """Per row the varints of these columns in a row, as binary; `first` is a byte behind the first.

    (That byte is a record's attributes, the only thing in it that is no varint.)
    """
    count = len(columns[0])
    parts, masks = [], []
    for index, values in enumerate(columns):
        raw = zigzag(values)
        width = int(varint_sizes(values).max(initial=1))
        shifts = np.arange(0, 7 * width, 7, dtype=np.uint64)
        shifted = raw[:, None] >> shifts
        more = np.zeros((count, width), np.bool_)
        more[:, :-1] = shifted[:, 1:] != 0
        parts.append((shifted & np.uint64(0x7F)).astype(np.uint8) | more.astype(np.uint8) << 7)
        keep = shifted != 0
        keep[:, 0] = True
        masks.append(keep)
        if index == 0 and first is not None:
            parts.append(np.full((count, 1), first, np.uint8))
            masks.append(np.ones((count, 1), np.bool_))
    matrix, mask = np.hstack(parts), np.hstack(masks)
    return _binary(mask.sum(axis=1), matrix[mask])


def _binary(sizes: Ints, data: Ints) -> pa.Array:
    ends = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(sizes), [None, pa.py_buffer(ends), pa.py_buffer(data)], 0
    )


def _lengths(array: pa.BinaryArray | None, count: int) -> Ints:
    """Length of every value, -1 for null."""
    if array is None:
        return np.full(count, -1, np.int64)
    filled = pc.fill_null(pc.binary_length(array), -1)
    lengths: Ints = filled.to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _encode_headers(headers: pa.ListArray | None, count: int) -> pa.Array:
    """The headers of every row as they stand in its record, their number first."""
    if headers is None:
        return pa.array([b"\0"]).take(pa.array(np.zeros(count, np.int32)))
    encoded = []
    for pairs in headers.to_pylist():
        out = bytearray()
        append_varint(out, len(pairs or ()))
        for pair in pairs or ():
            for data in (pair["key"], pair["value"]):
                append_varint(out, -1 if data is None else len(data))
                out += data or b""
        encoded.append(bytes(out))
    return pa.array(encoded, pa.binary())


class RowWriter:
    """Plans and writes batches, the same as the compiled `RowEncoder` does."""

    def __init__(self, rows: Rows, order: Ints | None) -> None:
        columns = [rows.key, rows.value, _encode_headers(rows.headers, rows.row_count)]
        timestamps = rows.timestamps
        if order is not None:
            index = pa.array(order)
            columns = [None if column is None else column.take(index) for column in columns]
            timestamps = timestamps[order]
        self._key, self._value, self._headers = columns
        self._timestamps = timestamps
        self._key_lengths = _lengths(self._key, rows.row_count)
        self._value_lengths = _lengths(self._value, rows.row_count)
        self._fixed_sizes = (
            1
            + varint_sizes(self._key_lengths)
            + np.maximum(self._key_lengths, 0)
            + varint_sizes(self._value_lengths)
            + np.maximum(self._value_lengths, 0)
            + _lengths(self._headers, rows.row_count)
        )
        self._fixed_ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._fixed_sizes)])

    def write(self, begin: int, end: int, payload_max: int) -> Iterator[tuple[Plan, bytearray]]:
        """Every batch of these rows with room for its header; see `columns_encode.Writer`.

        Numpy is dear per call, so batches are planned one by one but written many at once.
        """
        while begin < end:
            plans, size = [], 0
            while begin < end and size < _WRITE_BYTES:
                plan = self._plan_batch(begin, end, payload_max)
                plans.append(plan)
                begin, size = plan.end, size + plan.payload_bytes
                if plan.too_large_bytes:
                    break
            yield from self._write_batches([plan for plan in plans if not plan.too_large_bytes])
            if plans[-1].too_large_bytes:
                yield plans[-1], bytearray()
                return

    def _plan_batch(self, begin: int, end: int, payload_max: int) -> Plan:
        # More rows than this cannot fit, whatever their two deltas take.
        ends = self._fixed_ends
        reach = int(np.searchsorted(ends, ends[begin] + payload_max, side="right"))
        end = min(end, max(reach, begin + 1))
        base = self._timestamps[begin]
        times = self._timestamps[begin:end]
        with np.errstate(over="ignore"):
            deltas = times - base
        too_far = np.flatnonzero(((times ^ base) & (times ^ deltas)) < 0)
        if len(too_far):
            end = begin + int(too_far[0])
            times, deltas = times[: end - begin], deltas[: end - begin]
        bodies = self._body_sizes(slice(begin, end), deltas, np.arange(end - begin))
        sizes = np.cumsum(bodies + varint_sizes(bodies))
        fit = int(np.searchsorted(sizes, payload_max, side="right"))
        if fit == 0:
            return Plan(begin, begin, 0, int(sizes[0]), int(base), NO_TIMESTAMP)
        greatest = max(NO_TIMESTAMP, int(times[:fit].max()))
        return Plan(begin, begin + fit, int(sizes[fit - 1]), 0, int(base), greatest)

    def _body_sizes(self, rows: slice, timestamp_deltas: Ints, offset_deltas: Ints) -> Ints:
        sizes: Ints = self._fixed_sizes[rows] + varint_sizes(timestamp_deltas)
        sizes += varint_sizes(offset_deltas)
        return sizes

    def _write_batches(self, plans: list[Plan]) -> Iterator[tuple[Plan, bytearray]]:
        """The records of batches that follow each other, joined in one go and cut apart."""
        if not plans:
            return
        begin, end = plans[0].begin, plans[-1].end
        rows, count = slice(begin, end), end - begin
        counts = [plan.end - plan.begin for plan in plans]
        firsts = np.repeat(np.array([plan.begin - begin for plan in plans]), counts)
        with np.errstate(over="ignore"):
            timestamp_deltas = self._timestamps[rows] - self._timestamps[rows][firsts]
        offset_deltas = np.arange(count) - firsts
        bodies = self._body_sizes(rows, timestamp_deltas, offset_deltas)
        pieces = [
            _varints([bodies, timestamp_deltas, offset_deltas, self._key_lengths[rows]], 0),
            *([] if self._key is None else [self._key.slice(begin, count)]),
            _varints([self._value_lengths[rows]]),
            *([] if self._value is None else [self._value.slice(begin, count)]),
            self._headers.slice(begin, count),
        ]
        joined = pc.binary_join_element_wise(
            *pieces, b"", null_handling="replace", null_replacement=b""
        )
        _, ends, data = joined.buffers()
        ends = np.frombuffer(ends, np.int32, count + 1, 4 * joined.offset)
        for plan in plans:
            batch = bytearray(HEADER_BYTES)
            batch += memoryview(data)[int(ends[plan.begin - begin]) : int(ends[plan.end - begin])]
            yield plan, batch


def partition_keys(keys: pa.BinaryArray, partitions: int) -> Ints:
    """The partition of every key, -1 for null; `partitioner.partition_for_key` for all at once."""
    lengths = _lengths(keys, len(keys))
    starts = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys)]
    data = keys.buffers()[2]
    found = np.full(len(keys), -1, np.int32)
    rows = np.flatnonzero(lengths >= 0)
    if data is None or len(data) == 0:
        data = b"\0"
    hashes = _murmur2(np.frombuffer(data, np.uint8), starts[rows].astype(np.int64), lengths[rows])
    found[rows] = (hashes & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)
    return found


def _murmur2(data: Ints, starts: Ints, lengths: Ints) -> Ints:
    hashes = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    words = lengths >> 2
    left = np.flatnonzero(words > 0)
    step = 0
    while len(left) >= _KEYS_AT_ONCE_MIN:
        at = starts[left] + 4 * step
        word = _mix(_word(data, at, 4))
        hashes[left] = hashes[left] * _MULTIPLIER ^ word
        step += 1
        left = left[words[left] > step]
    for row in left.tolist():
        hashes[row] = _hash_rest(data, int(starts[row]), int(words[row]), step, int(hashes[row]))
    for rest in (1, 2, 3):
        rows = np.flatnonzero(lengths & 3 == rest)
        word = _word(data, starts[rows] + 4 * words[rows], rest)
        hashes[rows] = (hashes[rows] ^ word) * _MULTIPLIER
    hashes = (hashes ^ hashes >> np.uint32(13)) * _MULTIPLIER
    return hashes ^ hashes >> np.uint32(15)


def _mix(word: Ints) -> Ints:
    word = word * _MULTIPLIER
    mixed: Ints = (word ^ word >> np.uint32(24)) * _MULTIPLIER
    return mixed


def _word(data: Ints, at: Ints, size: int) -> Ints:
    """Little-endian numbers of `size` bytes at these positions."""
    word = np.zeros(len(at), np.uint32)
    for byte in range(size):
        word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def _hash_rest(data: Ints, start: int, words: int, step: int, value: int) -> int:
    """The words of one key from `step` on; a few long keys are not worth a pass each."""
    mixed = _mix(np.frombuffer(data[start + 4 * step : start + 4 * words].tobytes(), "<u4"))
    multiplier = int(_MULTIPLIER)
    for word in mixed.tolist():
        value = (value * multiplier & 0xFFFFFFFF) ^ word
    return value
