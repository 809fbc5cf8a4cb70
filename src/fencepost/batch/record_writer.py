"""Records written one behind the other, as they stand in a batch's payload.

`new_record_writer` gives the compiled class or its twin here, which write the same bytes and raise
the same errors. `records.BatchBuilder` puts a batch around records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.batch import backend
from fencepost.batch.header import HEADER_BYTES, NO_TIMESTAMP
from fencepost.batch.record import BATCH_BYTES_MAX
from fencepost.batch.walk import INT64_MAX, INT64_MIN
from fencepost.wire.types import Buffer


def new_record_writer() -> Any:
    """An empty `RecordWriter`, of whichever backend is in use."""
    kernels: Any = backend.kernels
    return RecordWriter() if kernels is None else kernels.RecordWriter()


class RecordWriter:
    """Collects the records of one batch; the first one's timestamp is the base of the others'."""

    __slots__ = ("base_timestamp", "count", "max_timestamp", "payload")

    def __init__(self) -> None:
        self.payload = bytearray()
        self.count = 0
        self.base_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP

    def append(
        self,
        key: Buffer | None,
        value: Buffer | None,
        headers: Iterable[tuple[str, Buffer | None]],
        timestamp_ms: int,
    ) -> int:
        """Add a record; the bytes that the batch would have now, without compression.

        Raises TypeError for what is not bytes, OverflowError for a timestamp beyond 64 bits or a
        batch that would pass 2 GiB, and leaves the writer as it was.
        """
        base = timestamp_ms if self.count == 0 else self.base_timestamp
        delta = timestamp_ms - base
        if not (INT64_MIN <= timestamp_ms <= INT64_MAX and INT64_MIN <= delta <= INT64_MAX):
            raise OverflowError(f"timestamp {timestamp_ms} ms beside {base} ms passes 64 bits")
        encoded = [(name.encode(), _as_bytes("header value", one)) for name, one in headers]
        record = encode_record_python(
            self.count, delta, _as_bytes("key", key), _as_bytes("value", value), encoded
        )
        size = HEADER_BYTES + len(self.payload) + len(record)
        if size > BATCH_BYTES_MAX:
            raise OverflowError("a batch has at most 2 GiB")
        self.payload += record
        self.count += 1
        self.base_timestamp = base
        self.max_timestamp = max(self.max_timestamp, timestamp_ms)
        return size


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[bytes, bytes | None]],
) -> bytes:
    """One record, for callers that copy records from other batches."""
    kernels: Any = backend.kernels
    encode = encode_record_python if kernels is None else kernels.encode_record
    encoded: bytes = encode(offset_delta, timestamp_delta, key, value, headers)
    return encoded


def encode_record_python(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[bytes, bytes | None]],
) -> bytes:
    """`encode_record` without the kernels."""
    body = bytearray(1)
    append_varint(body, timestamp_delta)
    append_varint(body, offset_delta)
    _append_bytes(body, key)
    _append_bytes(body, value)
    append_varint(body, len(headers))
    for header_key, header_value in headers:
        _append_bytes(body, header_key)
        _append_bytes(body, header_value)
    record = bytearray()
    append_varint(record, len(body))
    return bytes(record + body)


def append_varint(out: bytearray, value: int) -> None:
    """Append `value` as a zigzag varint of as many bytes as it takes."""
    raw = value << 1 if value >= 0 else ~(value << 1)
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def _append_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)
    else:
        append_varint(out, len(data))
        out += data


def _as_bytes(what: str, data: Buffer | None) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"a {what} is bytes or None, not {type(data).__name__}")
