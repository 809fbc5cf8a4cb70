"""Batches record by record: for tools, tests, coordinators and clients that want Python objects.

The log and the broker never come here: to them records are opaque bytes. Whoever wants many records
as columns finds them in `columns`, several hundred times cheaper per record.

Readers take messages of formats v0 and v1 as well (`legacy`), writers write v2 only.

Reading checks the CRC, undoes compression within a limit and parses one batch at a time; a batch is
either wholly sound or an error, never half of it. Building collects encoded records and puts the
header in front of them, compressed as one block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fencepost.batch import backend
from fencepost.batch.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    codec_of,
    compress,
    decompress,
)
from fencepost.batch.errors import BatchError
from fencepost.batch.header import (
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    UNKNOWN_COUNT,
    BatchHeader,
    check_magic,
    iter_headers,
    pack_header,
    read_header,
    require_crc,
    stamp_crc,
)
from fencepost.batch.legacy import read_messages
from fencepost.batch.record import BATCH_BYTES_MAX, CREATE_TIME, LOG_APPEND_TIME, Header, Record
from fencepost.batch.walk import (
    INT64_MAX,
    INT64_MIN,
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

# Length (5), attributes (1), timestamp delta (10), offset delta, key and value lengths and header
# count (5 each), and per header two lengths.
_RECORD_OVERHEAD_BYTES_MAX = 36
_HEADER_OVERHEAD_BYTES_MAX = 10


def read_payload(
    buf: Buffer, pos: int, header: BatchHeader, max_bytes: int = DECOMPRESSED_BYTES_MAX
) -> bytes | memoryview:
    """The records of the v2 batch at `pos`, uncompressed: a view where nothing had to be undone.

    Raises BatchError: see `compression.decompress`; CORRUPT_MESSAGE for a batch that is cut,
    UNSUPPORTED_FOR_MESSAGE_FORMAT for a message of v0 or v1.
    """
    if header.magic != MAGIC:
        check_magic(header.magic, header.base_offset)
    if len(buf) - pos < header.size_bytes:
        raise BatchError(
            ErrorCode.CORRUPT_MESSAGE,
            f"the batch of {header.size_bytes} bytes is cut after {len(buf) - pos}",
            offset=header.base_offset,
        )
    payload = memoryview(buf)[pos + HEADER_BYTES : pos + header.size_bytes]
    if header.compression == Codec.NONE:
        return payload
    try:
        return decompress(header.compression, payload, max_bytes)
    except BatchError as error:
        raise error.at(header.base_offset) from None


def read_batch(
    buf: Buffer,
    pos: int,
    header: BatchHeader,
    *,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> list[Record]:
    """All records of the batch at `pos`, whose CRC is taken for granted. Raises BatchError.

    Messages of v0 and v1 are read likewise; see `legacy.read_messages`.
    """
    if header.magic != MAGIC:
        return read_messages(buf, pos, header, max_decompressed_bytes=max_decompressed_bytes)
    payload = read_payload(buf, pos, header, max_decompressed_bytes)
    return list(map(Record._make, read_rows(payload, header)))


def read_rows(payload: Buffer, header: BatchHeader) -> list[Row]:
    """The records in a v2 batch's uncompressed payload, as tuples of what `Record` has. BatchError.

    For those who want the payload as well, or cannot afford a `Record` for each.
    """
    report, rows = _read_rows(payload, header, header.records_count)
    if report is not None:
        raise record_error(report, code=ErrorCode.CORRUPT_MESSAGE, offset=header.base_offset)
    return rows


def read_rows_in_parts(payload: Buffer, header: BatchHeader, rows_max: int) -> Iterator[list[Row]]:
    """The same, so many at a time: a few bytes can be millions of records.

    A batch that is not sound raises BatchError when its first bad record comes.
    """
    done, pos = 0, 0
    while True:
        left = header.records_count - done
        report, rows = _read_rows(memoryview(payload)[pos:], header, min(left, rows_max))
        is_last = len(rows) == left
        if report is not None and (is_last or report[0] != Reason.BATCH_REST):
            reason, index, position, detail = report
            raise record_error(
                (reason, done + index, pos + position, detail),
                code=ErrorCode.CORRUPT_MESSAGE,
                offset=header.base_offset,
            )
        yield rows
        if is_last:
            return
        done += len(rows)
        pos = len(payload) if report is None else pos + report[2]


def read_first(
    buf: Buffer, pos: int, header: BatchHeader, *, max_items: int, max_bytes: int
) -> tuple[list[Record], bool]:
    """The first records of the batch at `pos`, for whoever shows them; whether there are more.

    A record's header counts as an item like the record itself, and a record's bytes are what it
    takes uncompressed: nothing is made of a record beyond either limit, since a few bytes can be
    millions of records. What comes behind is not looked at. Raises BatchError as `read_batch`.
    """
    if header.magic != MAGIC:
        messages = read_messages(buf, pos, header, max_records=max_items + 1)
        return _within(messages, max_items, max_bytes)
    payload = read_payload(buf, pos, header)
    report, rows, has_more = _read_first_rows(payload, header, max_items, max_bytes)
    if report is not None:
        raise record_error(report, code=ErrorCode.CORRUPT_MESSAGE, offset=header.base_offset)
    return list(map(Record._make, rows)), has_more


def read_records(
    buf: Buffer,
    *,
    start_offset: int = 0,
    include_control: bool = False,
    check: bool = True,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> Iterator[Record]:
    """The records from `start_offset` on, of all whole batches in `buf`, whatever their format.

    Control batches are left out unless asked for. `check` False trusts the CRCs (bytes that were
    just checked, or never left the process). A batch that is not sound raises BatchError, with its
    base offset, before any of its records is given; batches that end before `start_offset` are not
    looked at.
    """
    for pos, header in iter_headers(buf):
        # -1 is what producers of old left in a compressed message, for the broker to fill in.
        if -1 < header.last_offset < start_offset or (header.is_control and not include_control):
            continue
        if check:
            require_crc(buf, pos, header)
        records = read_batch(buf, pos, header, max_decompressed_bytes=max_decompressed_bytes)
        if header.base_offset >= start_offset and header.magic == MAGIC:
            yield from records
        else:
            yield from (record for record in records if record.offset >= start_offset)


def first_offset(buf: Buffer) -> int:
    """The offset at which the first batch in `buf` begins, of whatever format. Raises BatchError.

    That is in its header, except for a compressed message of v0 or v1, which has to be read for it.
    """
    header = read_header(buf)
    if header.records_count != UNKNOWN_COUNT:
        return header.base_offset
    return read_batch(buf, 0, header)[0].offset


_Report = tuple[int, int, int, int]
Row = tuple[int, int, int, bytes | None, bytes | None, tuple[Header, ...]]


def _read_rows(
    payload: Buffer, header: BatchHeader, count: int
) -> tuple[_Report | None, list[Row]]:
    kernels: Any = backend.kernels
    if kernels is None:
        return _read_rows_python(payload, header, count)
    report, rows = kernels.read_rows(
        payload,
        count,
        header.base_offset,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp if header.is_log_append_time else None,
    )
    return report, rows


def _read_rows_python(
    payload: Buffer, header: BatchHeader, count: int
) -> tuple[_Report | None, list[Row]]:
    rows: list[Row] = []
    pos, end = 0, len(payload)
    try:
        while len(rows) < count:
            row, pos = _read_row(payload, pos, end, header)
            rows.append(row)
        if pos != end:
            raise InvalidRecord(Reason.BATCH_REST, end - pos)
    except InvalidRecord as invalid:
        return (int(invalid.reason), len(rows), pos, invalid.detail), rows
    return None, rows


def _read_first_rows(
    payload: Buffer, header: BatchHeader, max_items: int, max_bytes: int
) -> tuple[_Report | None, list[Row], bool]:
    rows: list[Row] = []
    pos, end = 0, len(payload)
    items = 0
    try:
        while len(rows) < header.records_count:
            record = read_record(payload, pos, end)
            headers_count, _ = read_varint(payload, record.headers_at, record.end)
            items += 1 + max(0, headers_count)
            if items > max_items or record.end > max_bytes:
                return None, rows, True
            row, pos = _read_row(payload, pos, end, header)
            rows.append(row)
        if pos != end:
            raise InvalidRecord(Reason.BATCH_REST, end - pos)
    except InvalidRecord as invalid:
        return (int(invalid.reason), len(rows), pos, invalid.detail), rows, False
    return None, rows, False


def _within(messages: list[Record], max_items: int, max_bytes: int) -> tuple[list[Record], bool]:
    for index, message in enumerate(messages):
        max_bytes -= len(message.key or b"") + len(message.value or b"")
        if index == max_items or max_bytes < 0:
            return messages[:index], True
    return messages, False


def _read_row(payload: Buffer, pos: int, end: int, header: BatchHeader) -> tuple[Row, int]:
    record = read_record(payload, pos, end)
    if not 0 <= record.offset_delta <= header.last_offset_delta:
        raise InvalidRecord(Reason.OFFSET_DELTA, record.offset_delta)
    if header.is_log_append_time:
        timestamp, kind = header.max_timestamp, LOG_APPEND_TIME
    else:
        timestamp, kind = add_timestamp(header.base_timestamp, record.timestamp_delta), CREATE_TIME
    headers = tuple(
        (
            bytes(payload[key_at : key_at + key_length]).decode("utf-8", "replace"),
            _slice(payload, value_at, value_length),
        )
        for key_at, key_length, value_at, value_length in read_headers(
            payload, record.headers_at, record.end
        )
    )
    key = _slice(payload, record.key_at, record.key_length)
    value = _slice(payload, record.value_at, record.value_length)
    offset = header.base_offset + record.offset_delta
    return (offset, timestamp, kind, key, value, headers), record.end


def _slice(payload: Buffer, at: int, length: int) -> bytes | None:
    return None if length < 0 else bytes(payload[at : at + length])


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


def encode_record_python(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[bytes, bytes | None]],
) -> bytes:
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


def record_bytes_max(
    key: Buffer | None, value: Buffer | None, headers: Iterable[tuple[str, Buffer | None]] = ()
) -> int:
    """The most bytes such a record can add to a batch before compression."""
    size = _RECORD_OVERHEAD_BYTES_MAX + (0 if key is None else len(key))
    size += 0 if value is None else len(value)
    for header_key, header_value in headers:
        size += _HEADER_OVERHEAD_BYTES_MAX + len(header_key.encode())
        size += 0 if header_value is None else len(header_value)
    return size


def _as_bytes(what: str, data: Buffer | None) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"a {what} is bytes or None, not {type(data).__name__}")


class BatchBuilder:
    """Collects records and writes them as one batch, as often as asked.

    `compression` is a codec's name or id, `level` its level (see `compression.compress`). The first
    record's timestamp becomes the base timestamp.
    """

    def __init__(self, compression: str | int = "none", *, level: int | None = None) -> None:
        self._codec = codec_of(compression)
        self._level = level
        self._payload = bytearray()
        self._count = 0
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP

    @property
    def size_bytes(self) -> int:
        """Bytes of the batch if it were built now without compression."""
        return HEADER_BYTES + len(self._payload)

    @property
    def count(self) -> int:
        """Records so far."""
        return self._count

    def append(
        self,
        key: Buffer | None,
        value: Buffer | None,
        headers: Iterable[tuple[str, Buffer | None]] = (),
        *,
        timestamp_ms: int,
    ) -> None:
        """Add a record; -1 ms means that it has no timestamp.

        Raises TypeError for what is not bytes, OverflowError for a timestamp beyond 64 bits or
        a batch that would pass 2 GiB, and leaves the builder as it was.
        """
        base = timestamp_ms if self._count == 0 else self._base_timestamp
        delta = timestamp_ms - base
        if not (INT64_MIN <= timestamp_ms <= INT64_MAX and INT64_MIN <= delta <= INT64_MAX):
            raise OverflowError(f"timestamp {timestamp_ms} ms beside {base} ms passes 64 bits")
        encoded_headers = [
            (name.encode(), _as_bytes("header value", content)) for name, content in headers
        ]
        kernels: Any = backend.kernels
        encode = encode_record_python if kernels is None else kernels.encode_record
        record = encode(
            self._count, delta, _as_bytes("key", key), _as_bytes("value", value), encoded_headers
        )
        if self.size_bytes + len(record) > BATCH_BYTES_MAX:
            raise OverflowError("a batch has at most 2 GiB")
        self._payload += record
        self._count += 1
        self._base_timestamp = base
        self._max_timestamp = max(self._max_timestamp, timestamp_ms)

    def build(
        self,
        base_offset: int = 0,
        leader_epoch: int = NO_LEADER_EPOCH,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
    ) -> bytearray:
        """The batch, CRC and all. Raises ValueError without a record."""
        if self._count == 0:
            raise ValueError("a batch has at least one record")
        flags = (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0)
        header = BatchHeader(
            base_offset=base_offset,
            batch_length=0,
            partition_leader_epoch=leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=self._codec | flags,
            last_offset_delta=self._count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            records_count=self._count,
        )
        return assemble(header, self._payload, self._level)


def assemble(header: BatchHeader, payload: Buffer, level: int | None = None) -> bytearray:
    """A whole batch: `header` with its length and CRC set right, and `payload` compressed.

    `payload` is plain records; the codec is the one `header` names.
    """
    if header.compression != Codec.NONE:
        payload = compress(header.compression, payload, level)
    batch = bytearray(HEADER_BYTES)
    batch += payload
    finish(batch, header)
    return batch


def finish(batch: bytearray, header: BatchHeader) -> None:
    """Write `header` over the first 61 bytes of `batch`, its length and CRC set right."""
    pack_header(batch, header._replace(batch_length=len(batch) - LENGTH_OVERHEAD_BYTES, crc=0))
    stamp_crc(batch)


def build_batch(
    items: Iterable[Record | tuple[Any, ...]],
    *,
    timestamp_ms: int = NO_TIMESTAMP,
    compression: str | int = "none",
    level: int | None = None,
    **stamps: Any,
) -> bytearray:
    """One batch of `items`: Records (their offsets are ignored) or (key, value[, headers]).

    `timestamp_ms` is for items that have none of their own; `stamps` go to `BatchBuilder.build`.
    """
    builder = BatchBuilder(compression, level=level)
    for item in items:
        if isinstance(item, Record):
            builder.append(item.key, item.value, item.headers, timestamp_ms=item.timestamp_ms)
        else:
            builder.append(*item, timestamp_ms=timestamp_ms)
    return builder.build(**stamps)


__all__ = [
    "BatchBuilder",
    "Header",
    "Record",
    "assemble",
    "build_batch",
    "first_offset",
    "read_batch",
    "read_first",
    "read_payload",
    "read_records",
    "read_rows",
    "record_bytes_max",
]


__all__ = [
    "BatchBuilder",
    "Header",
    "Record",
    "Row",
    "append_varint",
    "assemble",
    "build_batch",
    "encode_record_python",
    "finish",
    "first_offset",
    "read_batch",
    "read_first",
    "read_payload",
    "read_records",
    "read_rows",
    "read_rows_in_parts",
    "record_bytes_max",
]
