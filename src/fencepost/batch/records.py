"""Batches record by record: for tools, tests, coordinators and clients that want Python objects.

Appends and fetches do not use it: to them records are opaque bytes. `columns` reads many records as
Arrow columns, several hundred times cheaper per record.

Readers take messages of formats v0 and v1 as well (`legacy`), writers write v2 only.

Reading checks the CRC, undoes compression within a limit and parses one batch at a time; a batch is
either wholly sound or an error, never half of it. Building collects encoded records and puts the
header in front of them, compressed as one block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
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
from fencepost.batch.record import CREATE_TIME, LOG_APPEND_TIME, Header, Record
from fencepost.batch.record_writer import new_record_writer
from fencepost.batch.walk import (
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
    row_type: Any = Record,
    prefix: tuple[Any, ...] = (),
) -> list[Any]:
    """All records of the batch at `pos`, whose CRC is taken for granted. Raises BatchError.

    They are of `row_type`, a NamedTuple that has the values of `prefix` and behind them what
    `Record` has. Messages of v0 and v1 are read likewise; see `legacy.read_messages`.
    """
    if header.magic != MAGIC:
        messages = read_messages(buf, pos, header, max_decompressed_bytes=max_decompressed_bytes)
        if row_type is Record:
            return messages
        return [row_type._make(prefix + message) for message in messages]
    payload = read_payload(buf, pos, header, max_decompressed_bytes)
    report, rows = _read_rows(payload, header, header.records_count, row_type, prefix)
    if report is not None:
        raise record_error(report, code=ErrorCode.CORRUPT_MESSAGE, offset=header.base_offset)
    return rows


def read_rows(payload: Buffer, header: BatchHeader) -> list[Row]:
    """The records in a v2 batch's uncompressed payload, as tuples of what `Record` has. BatchError.

    For callers that want the payload as well, or cannot afford a `Record` for each.
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
    """The first records of the batch at `pos`, to be shown; whether there are more.

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
    return chain.from_iterable(
        read_record_lists(
            buf,
            start_offset=start_offset,
            include_control=include_control,
            check=check,
            max_decompressed_bytes=max_decompressed_bytes,
        )
    )


def read_record_lists(
    buf: Buffer,
    *,
    start_offset: int = 0,
    include_control: bool = False,
    check: bool = True,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
    row_type: Any = Record,
    prefix: tuple[Any, ...] = (),
) -> Iterator[list[Any]]:
    """What `read_records` gives, one list for each batch; `row_type` as of `read_batch`."""
    for pos, header in iter_headers(buf):
        # -1 is what producers of old left in a compressed message, for the broker to fill in.
        if -1 < header.last_offset < start_offset or (header.is_control and not include_control):
            continue
        if check:
            require_crc(buf, pos, header)
        records = read_batch(
            buf,
            pos,
            header,
            max_decompressed_bytes=max_decompressed_bytes,
            row_type=row_type,
            prefix=prefix,
        )
        if header.base_offset >= start_offset and header.magic == MAGIC:
            yield records
        else:
            yield [record for record in records if record.offset >= start_offset]


def first_offset(buf: Buffer) -> int:
    """The offset at which the first batch in `buf` begins, of whatever format. Raises BatchError.

    That is in its header, except for a compressed message of v0 or v1, which has to be read for it.
    """
    header = read_header(buf)
    if header.records_count != UNKNOWN_COUNT:
        return header.base_offset
    first: Record = read_batch(buf, 0, header)[0]
    return first.offset


Report = tuple[int, int, int, int]
"""A reason, the index of the record, where it begins in the payload, and the value in question."""
Row = tuple[int, int, int, bytes | None, bytes | None, tuple[Header, ...]]


def _read_rows(
    payload: Buffer,
    header: BatchHeader,
    count: int,
    row_type: Any = tuple,
    prefix: tuple[Any, ...] = (),
) -> tuple[Report | None, list[Any]]:
    kernels: Any = backend.kernels
    if kernels is None:
        report, rows = read_rows_python(payload, header, count)
        if row_type is not tuple:
            rows = [row_type._make(prefix + row) for row in rows]
        return report, rows
    report, rows = kernels.read_rows(
        payload,
        count,
        header.base_offset,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp if header.is_log_append_time else None,
        row_type,
        prefix,
    )
    return report, rows


def read_rows_python(
    payload: Buffer, header: BatchHeader, count: int
) -> tuple[Report | None, list[Row]]:
    """What is wrong, if anything is, and the records, without the kernels."""
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
) -> tuple[Report | None, list[Row], bool]:
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


class BatchBuilder:
    """Collects records and writes them as one batch, as often as asked.

    `compression` is a codec's name or id, `level` its level (see `compression.compress`). The first
    record's timestamp becomes the base timestamp.
    """

    def __init__(self, compression: str | int = "none", *, level: int | None = None) -> None:
        self._codec = codec_of(compression)
        self._level = level
        self.records = new_record_writer()
        """What `append` adds to, for who adds many: its `append` tells the size as well."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the batch if it were built now without compression."""
        return HEADER_BYTES + len(self.records.payload)

    @property
    def count(self) -> int:
        """Records so far."""
        return int(self.records.count)

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
        self.records.append(key, value, headers, timestamp_ms)

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
        records = self.records
        if records.count == 0:
            raise ValueError("a batch has at least one record")
        flags = (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0)
        header = BatchHeader(
            base_offset=base_offset,
            batch_length=0,
            partition_leader_epoch=leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=self._codec | flags,
            last_offset_delta=records.count - 1,
            base_timestamp=records.base_timestamp,
            max_timestamp=records.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            records_count=records.count,
        )
        return assemble(header, records.payload, self._level)


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
    "Report",
    "Row",
    "assemble",
    "build_batch",
    "finish",
    "first_offset",
    "read_batch",
    "read_first",
    "read_payload",
    "read_record_lists",
    "read_records",
    "read_rows",
    "read_rows_in_parts",
    "read_rows_python",
    "record_bytes_max",
]
