"""The records of a v2 batch: one bounded parser, and the strict walk over a whole payload.

A record, all numbers as zigzag varints (protobuf's) unless said otherwise:

    length            bytes after this field
    attributes        int8, none defined
    timestamp_delta   to the batch's base timestamp, up to ten bytes
    offset_delta      to the batch's base offset
    key length, key   length -1 for null
    value length, value
    header count, and per header: key length >= 0, key, value length or -1, value

Nothing in a record is believed: every varint and length is checked against the end of its record,
every record against the end of the payload, and a record must end exactly where its length says.
A varint of 32 bits has five bytes at most, one of 64 bits ten, and none carries bits beyond.

This module is the Python twin of `_records.h`. Both report a fault as a `Reason` with the record's
index, the position of its first byte and the value that was wrong, and must agree on all four; the
wording is here.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from fencepost.batch import backend
from fencepost.batch.errors import BatchError
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
NO_TIMESTAMP = -1
NO_HEADERS = b"\0"
RECORD_BODY_BYTES_MIN = 6
MICROSECONDS_PER_MILLISECOND = 1000
REFUSED_RECORDS_MAX = 1000
LOOKED_AT_MAX = 10_000
"""How many records `find_refused` names, and among how many: looking for them must not keep the
broker busy."""


class Reason(IntEnum):
    """What can be wrong with a record; the numbers are those of `_records.h`."""

    TOO_FEW = 1
    LENGTH = 2
    VARINT = 3
    KEY_LENGTH = 4
    VALUE_LENGTH = 5
    HEADER_COUNT = 6
    HEADER_LENGTH = 7
    RECORD_REST = 8
    OFFSET_DELTA = 9
    TIMESTAMP = 10
    NO_KEY = 11
    TIMESTAMP_BOUNDS = 12
    BATCH_REST = 13
    MICROSECONDS = 14
    RECORD_BYTES = 15


_WORDS = {
    Reason.TOO_FEW: "the records end before it",
    Reason.LENGTH: "its length cannot be {}",
    Reason.VARINT: "a number in it is malformed or passes its end",
    Reason.KEY_LENGTH: "its key's length cannot be {}",
    Reason.VALUE_LENGTH: "its value's length cannot be {}",
    Reason.HEADER_COUNT: "its header count cannot be {}",
    Reason.HEADER_LENGTH: "a header's key or value cannot have length {}",
    Reason.RECORD_REST: "{} bytes are left behind its last header",
    Reason.OFFSET_DELTA: "its offset delta cannot be {}",
    Reason.TIMESTAMP: "its timestamp delta {} leads beyond 64 bits",
    Reason.NO_KEY: "it has no key, which a compacted topic requires",
    Reason.TIMESTAMP_BOUNDS: "its timestamp {} is outside the bounds of the topic",
    Reason.BATCH_REST: "{} bytes are left behind the last record",
    Reason.MICROSECONDS: "its timestamp of {} ms does not fit into 64 bits of microseconds",
    Reason.RECORD_BYTES: "its {} bytes are more than the topic allows",
}


class RecordError(BatchError):
    """A record that is not sound; `reason`, `index`, `position` and `detail` say how and where."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        offset: int | None = None,
        report: tuple[int, int, int, int] = (0, 0, 0, 0),
    ) -> None:
        super().__init__(code, message, offset)
        self.args = (code, message, offset, report)
        self.report = report

    @property
    def reason(self) -> Reason:
        """What is wrong."""
        return Reason(self.report[0])


def record_error(
    report: tuple[int, int, int, int], *, code: ErrorCode, offset: int | None = None
) -> RecordError:
    """The error for (reason, index, position, detail); timestamps have a code of their own."""
    reason, index, position, detail = report
    if reason in (Reason.TIMESTAMP, Reason.TIMESTAMP_BOUNDS, Reason.MICROSECONDS):
        code = ErrorCode.INVALID_TIMESTAMP
    words = _WORDS[Reason(reason)].format(detail)
    message = f"record {index} at byte {position} of the records: {words}"
    return RecordError(code, message, offset, report)


class InvalidRecord(Exception):
    """Carries a reason from the parser to the caller that knows index and position; private."""

    def __init__(self, reason: Reason, detail: int = 0) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class RecordView(NamedTuple):
    """A record's numbers and where its parts lie in the payload; length -1 is null."""

    timestamp_delta: int
    offset_delta: int
    key_at: int
    key_length: int
    value_at: int
    value_length: int
    headers_at: int
    end: int


def read_varint(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """A 32-bit zigzag varint at `pos` and the position behind it. Raises InvalidRecord."""
    if pos + 1 < end:  # nearly all have one byte or two
        low = buf[pos]
        if low < 0x80:
            return low >> 1 ^ -(low & 1), pos + 1
        high = buf[pos + 1]
        if high < 0x80:
            return (low >> 1 & 0x3F | high << 6) ^ -(low & 1), pos + 2
    raw = shift = 0
    for index in range(pos, min(end, pos + 5)):
        byte = buf[index]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw > 0xFFFFFFFF:
                break
            return raw >> 1 ^ -(raw & 1), index + 1
        shift += 7
    raise InvalidRecord(Reason.VARINT)


def read_varlong(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """A 64-bit zigzag varint at `pos` and the position behind it. Raises InvalidRecord."""
    if pos < end and (low := buf[pos]) < 0x80:
        return low >> 1 ^ -(low & 1), pos + 1
    raw = shift = 0
    for index in range(pos, min(end, pos + 10)):
        byte = buf[index]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw > 0xFFFFFFFFFFFFFFFF:
                break
            return raw >> 1 ^ -(raw & 1), index + 1
        shift += 7
    raise InvalidRecord(Reason.VARINT)


def read_record(buf: Buffer, pos: int, end: int) -> RecordView:
    """The record at `pos`, its headers not yet looked at. Raises InvalidRecord."""
    if pos == end:
        raise InvalidRecord(Reason.TOO_FEW)
    length, pos = read_varint(buf, pos, end)
    if not RECORD_BODY_BYTES_MIN <= length <= end - pos:
        raise InvalidRecord(Reason.LENGTH, length)
    end = pos + length
    timestamp_delta, pos = read_varlong(buf, pos + 1, end)
    offset_delta, pos = read_varint(buf, pos, end)
    key_length, key_at = read_varint(buf, pos, end)
    if not -1 <= key_length <= end - key_at:
        raise InvalidRecord(Reason.KEY_LENGTH, key_length)
    pos = key_at + key_length if key_length > 0 else key_at
    value_length, value_at = read_varint(buf, pos, end)
    if not -1 <= value_length <= end - value_at:
        raise InvalidRecord(Reason.VALUE_LENGTH, value_length)
    pos = value_at + value_length if value_length > 0 else value_at
    return RecordView(
        timestamp_delta, offset_delta, key_at, key_length, value_at, value_length, pos, end
    )


def read_headers(buf: Buffer, pos: int, end: int) -> list[tuple[int, int, int, int]]:
    """Per header: where its key lies, the key's length, the same of its value. InvalidRecord.

    `pos` is where the header count stands; the last header must end exactly at `end`.
    """
    count, pos = read_varint(buf, pos, end)
    if not 0 <= count <= (end - pos) // 2:  # a header has two bytes at least
        raise InvalidRecord(Reason.HEADER_COUNT, count)
    headers = []
    for _ in range(count):
        key_length, key_at = read_varint(buf, pos, end)
        if not 0 <= key_length <= end - key_at:
            raise InvalidRecord(Reason.HEADER_LENGTH, key_length)
        value_length, value_at = read_varint(buf, key_at + key_length, end)
        if not -1 <= value_length <= end - value_at:
            raise InvalidRecord(Reason.HEADER_LENGTH, value_length)
        headers.append((key_at, key_length, value_at, value_length))
        pos = value_at + max(value_length, 0)
    if pos != end:
        raise InvalidRecord(Reason.RECORD_REST, end - pos)
    return headers


class Rules(NamedTuple):
    """What the records of a produced batch must obey, from its header and its topic."""

    records_count: int
    base_timestamp: int
    key_required: bool = False
    timestamp_min_ms: int = INT64_MIN
    timestamp_max_ms: int = INT64_MAX
    record_bytes_max: int = INT64_MAX


def walk(payload: Buffer, rules: Rules) -> int:
    """Check a producer's records, uncompressed; their greatest timestamp, at least -1.

    Every record must be sound, and not larger than the topic allows, their offset deltas 0, 1, 2,
    and so on, and nothing may stand behind the last. Timestamps must lie within the bounds unless
    they are -1 (none). Raises RecordError: INVALID_TIMESTAMP for those, INVALID_RECORD for others.
    """
    kernels: Any = backend.kernels
    if kernels is None:
        report, max_timestamp = _walk_python(payload, rules)
    else:
        report, max_timestamp = kernels.walk(payload, *rules)
    if report is not None:
        raise record_error(report, code=ErrorCode.INVALID_RECORD)
    return max_timestamp


def find_refused(
    payload: Buffer, rules: Rules, first: tuple[int, int, int, int]
) -> list[RecordError]:
    """The records without a key or out of time's bounds, given the `first` that `walk` has found.

    At least one, at most `REFUSED_RECORDS_MAX`, and none farther behind the first than
    `LOOKED_AT_MAX`. Raises RecordError for a record on the way that is not sound.
    """
    payload = bytes(payload)
    _, begin, pos, _ = first
    refused: list[RecordError] = []
    for index in range(begin, min(rules.records_count, begin + LOOKED_AT_MAX)):
        try:
            record = read_record(payload, pos, len(payload))
            _check_record_bytes(payload, pos, record, rules)
            read_headers(payload, record.headers_at, record.end)
            _walk_record(record, index, rules)
        except InvalidRecord as invalid:
            report = (int(invalid.reason), index, pos, invalid.detail)
            error = record_error(report, code=ErrorCode.INVALID_RECORD)
            if invalid.reason not in (Reason.NO_KEY, Reason.TIMESTAMP_BOUNDS):
                raise error from None
            refused.append(error)
            if len(refused) == REFUSED_RECORDS_MAX:
                break
        pos = record.end
    return refused


def _walk_python(payload: Buffer, rules: Rules) -> tuple[tuple[int, int, int, int] | None, int]:
    payload = bytes(payload)  # whose bytes are cheaper to look at than a view's
    pos, end = 0, len(payload)
    max_timestamp = NO_TIMESTAMP
    index = 0
    try:
        for index in range(rules.records_count):
            record = read_record(payload, pos, end)
            _check_record_bytes(payload, pos, record, rules)
            if payload[record.headers_at : record.end] != NO_HEADERS:
                read_headers(payload, record.headers_at, record.end)
            timestamp = _walk_record(record, index, rules)
            max_timestamp = max(max_timestamp, timestamp)
            pos = record.end
        if pos != end:
            index = rules.records_count
            raise InvalidRecord(Reason.BATCH_REST, end - pos)
    except InvalidRecord as invalid:
        return (int(invalid.reason), index, pos, invalid.detail), max_timestamp
    return None, max_timestamp


def _check_record_bytes(payload: bytes, pos: int, record: RecordView, rules: Rules) -> None:
    """What the record's length says is not more than the topic allows."""
    if record.end - pos > rules.record_bytes_max:
        length, _ = read_varint(payload, pos, record.end)
        if length > rules.record_bytes_max:
            raise InvalidRecord(Reason.RECORD_BYTES, length)


def _walk_record(record: RecordView, index: int, rules: Rules) -> int:
    if record.offset_delta != index:
        raise InvalidRecord(Reason.OFFSET_DELTA, record.offset_delta)
    timestamp = add_timestamp(rules.base_timestamp, record.timestamp_delta)
    if rules.key_required and record.key_length < 0:
        raise InvalidRecord(Reason.NO_KEY)
    if timestamp != NO_TIMESTAMP and not (
        rules.timestamp_min_ms <= timestamp <= rules.timestamp_max_ms
    ):
        raise InvalidRecord(Reason.TIMESTAMP_BOUNDS, timestamp)
    return timestamp


def add_timestamp(base_timestamp: int, delta: int) -> int:
    """The record's timestamp in ms. Raises InvalidRecord when it leaves 64 bits."""
    timestamp = base_timestamp + delta
    if not INT64_MIN <= timestamp <= INT64_MAX:
        raise InvalidRecord(Reason.TIMESTAMP, delta)
    return timestamp
