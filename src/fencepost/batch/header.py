"""The 61 bytes in front of every record batch, read and stamped without touching the records.

Layout (big-endian; KIP-98, Kafka's `DefaultRecordBatch`):

    0  base_offset             int64   offset of the first record, set by the leader
    8  batch_length            int32   bytes after this field
    12 partition_leader_epoch  int32   set by the leader; outside the CRC, like all before it
    16 magic                   int8    2; older formats have 0 or 1 in the same place
    17 crc                     uint32  CRC-32C of everything from byte 21 on
    21 attributes              int16   see the constants below
    23 last_offset_delta       int32   last offset minus base offset, also when compaction left gaps
    27 base_timestamp          int64   what the records' timestamps are relative to, in ms
    35 max_timestamp           int64   in ms; with LogAppendTime the timestamp of every record
    43 producer_id             int64   -1 for a producer without idempotence
    51 producer_epoch          int16   -1 likewise
    53 base_sequence           int32   -1 likewise; sequence numbers wrap from 2**31 - 1 to 0
    57 records_count           int32   0 only in batches that compaction emptied
    61 records, compressed as one block if bits 0-2 of attributes say so

What a header claims is checked for sense here (a length that cannot be, an unknown magic), never
against the records: `validate` does that. Because the leader's fields lie outside the CRC, a leader
gives offsets to a batch by writing 16 bytes.

Logs older than Kafka 0.11 hold messages (formats v0 and v1), which have offset, length and magic in
the same places; `legacy` has their layout and reads what is in them. Here they get a `BatchHeader`
too, so that a walk over batches treats all formats alike: a field that a message does not have
holds v2's value for none. A compressed message is a batch, but its records are not counted
(`UNKNOWN_COUNT`), and its one offset is that of its *last* record, so `base_offset` is too high for
the first; nothing but `legacy.read_messages` can say how much.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

from fencepost.batch import backend
from fencepost.batch.crc import crc32c
from fencepost.batch.errors import BatchError
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

HEADER_BYTES = 61
MAGIC = 2
LENGTH_OVERHEAD_BYTES = 12
"""Bytes in front of those that `batch_length` counts."""

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

UNKNOWN_COUNT = -1
"""Records count of a compressed message of format v0 or v1."""

OFFSET_MAX = 2**63 - 1
SEQUENCE_MAX = 2**31 - 1

_HEADER = Struct(">qiibIhiqqqhii")
_LENGTH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")
_PRODUCER = Struct(">qhi")
MAGIC_AT = 16
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_PRODUCER_AT = 43
_LENGTH_MIN = HEADER_BYTES - LENGTH_OVERHEAD_BYTES
# offset, length, crc, magic, attributes; v1 has its timestamp behind them
_MESSAGE = Struct(">qiIbb")
MESSAGE_CRC_AT = 12
MESSAGE_TIMESTAMP_AT = 18
MESSAGE_LENGTHS_MIN = (14, 22)
"""The least length a message of v0, of v1 can have: no key and no value."""
MESSAGE_BYTES_MIN = MESSAGE_LENGTHS_MIN[0] + LENGTH_OVERHEAD_BYTES
_MESSAGE_ATTRIBUTES = (CODEC_MASK, CODEC_MASK | LOG_APPEND_TIME_BIT)
assert _HEADER.size == HEADER_BYTES
_new = tuple.__new__  # what a NamedTuple's `_make` does, without a call in between


class BatchHeader(NamedTuple):
    """A batch's header as it is written; see the module for what each field means.

    `magic` is 0 or 1 for a message of the formats before batches.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LENGTH_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of the batch's last record, whether or not compaction has kept it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where the batch behind this one begins at the earliest."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """Codec id, 0 to 7; see `fencepost.batch.compression.Codec`."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker's clock gave every record its timestamp (`max_timestamp`)."""
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the records are part of a transaction, or end one."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Whether the records are Kafka's own (markers, Raft records), not a user's."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` holds the time from which tombstones may go (KIP-534)."""
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, -1 without one; 0 follows 2**31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX


class WholeBatches(NamedTuple):
    """What a buffer of batches holds, without what was cut off at its end."""

    size_bytes: int
    next_offset: int | None
    batches: int


def check_magic(magic: int, offset: int | None = None) -> None:
    """Raise BatchError unless `magic` is that of format v2."""
    if magic == MAGIC:
        return
    if magic in (0, 1):
        raise BatchError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"message format v{magic} (before Kafka 0.11) cannot be used here, only v2",
            offset=offset,
        )
    raise BatchError(ErrorCode.CORRUPT_MESSAGE, f"magic is {magic}, not 2", offset=offset)


def unpack_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The v2 header at `pos`, with nothing checked but its length and magic; see `read_header`."""
    if len(buf) - pos < HEADER_BYTES:
        if len(buf) - pos > MAGIC_AT:
            check_magic(buf[pos + MAGIC_AT])
        raise _cut_header(len(buf) - pos, HEADER_BYTES)
    header = _new(BatchHeader, _HEADER.unpack_from(buf, pos))
    if header.magic != MAGIC:
        check_magic(header.magic, header.base_offset)
    if header.batch_length < _LENGTH_MIN:
        raise _too_short(header.batch_length, _LENGTH_MIN, header.base_offset)
    return header


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header of the batch at `pos`, or of the message (v0, v1); it may be cut behind it.

    Raises BatchError CORRUPT_MESSAGE where there are too few bytes for it, or values no batch can
    have.
    """
    left = len(buf) - pos
    if left < HEADER_BYTES:
        if left > MAGIC_AT and buf[pos + MAGIC_AT] < MAGIC:
            return _read_message_header(buf, pos)
        if left > MAGIC_AT:
            check_magic(buf[pos + MAGIC_AT])
        raise _cut_header(left, HEADER_BYTES)
    header = _new(BatchHeader, _HEADER.unpack_from(buf, pos))
    if header.magic != MAGIC:
        if 0 <= header.magic < MAGIC:
            return _read_message_header(buf, pos)
        check_magic(header.magic, header.base_offset)
    if header.batch_length < _LENGTH_MIN:
        raise _too_short(header.batch_length, _LENGTH_MIN, header.base_offset)
    if header.records_count < 0:
        reason = f"records count is {header.records_count}"
    elif header.last_offset_delta < 0:
        reason = f"last offset delta is {header.last_offset_delta}"
    elif not 0 <= header.base_offset <= OFFSET_MAX - header.last_offset_delta - 1:
        reason = f"offsets from {header.base_offset} to {header.last_offset} do not exist"
    else:
        return header
    raise BatchError(ErrorCode.CORRUPT_MESSAGE, reason, offset=header.base_offset)


def _read_message_header(buf: Buffer, pos: int) -> BatchHeader:
    """What `BatchHeader` can say of the v0 or v1 message at `pos`, whose magic is there."""
    magic = buf[pos + MAGIC_AT]
    length_min = MESSAGE_LENGTHS_MIN[magic]
    if len(buf) - pos < length_min + LENGTH_OVERHEAD_BYTES:
        raise _cut_header(len(buf) - pos, length_min + LENGTH_OVERHEAD_BYTES)
    offset, length, crc, _, attributes = _MESSAGE.unpack_from(buf, pos)
    if length < length_min:
        raise _too_short(length, length_min, offset)
    if not -1 <= offset < OFFSET_MAX:  # producers left -1 where a broker would write the offset
        raise BatchError(ErrorCode.CORRUPT_MESSAGE, f"there is no offset {offset}", offset=offset)
    timestamp = NO_TIMESTAMP
    if magic:
        (timestamp,) = _TIMESTAMP.unpack_from(buf, pos + MESSAGE_TIMESTAMP_AT)
    return BatchHeader(
        base_offset=offset,
        batch_length=length,
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=magic,
        crc=crc,
        attributes=attributes & _MESSAGE_ATTRIBUTES[magic],
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=UNKNOWN_COUNT if attributes & CODEC_MASK else 1,
    )


def _cut_header(left: int, wanted: int) -> BatchError:
    return BatchError(
        ErrorCode.CORRUPT_MESSAGE, f"a batch header has {wanted} bytes, {max(left, 0)} are left"
    )


def _too_short(length: int, least: int, offset: int) -> BatchError:
    return BatchError(
        ErrorCode.CORRUPT_MESSAGE,
        f"batch length {length} is below the header's {least}",
        offset=offset,
    )


def iter_headers(
    buf: Buffer, pos: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch (of any format) in `buf[pos:end]`.

    A fetch answer may be cut anywhere, so a last batch that is not whole ends the iteration in
    silence. Raises BatchError as `read_header` does, also for a cut batch that shows a wrong magic.
    """
    end = len(buf) if end is None else min(end, len(buf))
    while end - pos > MAGIC_AT:
        if end - pos < HEADER_BYTES:
            magic = buf[pos + MAGIC_AT]
            if magic >= MAGIC:
                check_magic(magic)
                return
            if end - pos < MESSAGE_LENGTHS_MIN[magic] + LENGTH_OVERHEAD_BYTES:
                return
        header = read_header(buf, pos)
        if header.size_bytes > end - pos:
            return
        yield pos, header
        pos += header.size_bytes


def sound_headers(buf: Buffer, pos: int = 0) -> list[BatchHeader]:
    """Headers of the v2 batches from `pos` on that are whole and have the CRC they should have.

    For callers that check many batches: at the first that is not, or is a message of v0 or v1, the
    list ends, and `read_header` and `check_crc` say why. Without the kernels it is always empty.
    """
    kernels: Any = backend.kernels
    if kernels is None:
        return []
    headers: list[BatchHeader] = kernels.sound_headers(buf, pos, BatchHeader)
    return headers


def measure(buf: Buffer, pos: int = 0, end: int | None = None) -> WholeBatches:
    """How far the whole batches in `buf[pos:end]` reach, and the offset behind the last of them.

    That offset is where to fetch next even if no record of theirs was of interest.
    """
    batches, next_offset, reached = 0, None, pos
    for at, header in iter_headers(buf, pos, end):
        batches += 1
        next_offset = header.next_offset
        reached = at + header.size_bytes
    return WholeBatches(reached - pos, next_offset, batches)


def compute_crc(buf: Buffer, pos: int, header: BatchHeader) -> int:
    """The CRC that the batch at `pos` should have; messages of v0 and v1 have zlib's CRC-32."""
    end = pos + LENGTH_OVERHEAD_BYTES + header.batch_length
    if header.magic == MAGIC:
        return crc32c(memoryview(buf)[pos + _ATTRIBUTES_AT : end])
    return crc32(memoryview(buf)[pos + MAGIC_AT : end])


def check_crc(buf: Buffer, pos: int, header: BatchHeader) -> bool:
    """Whether the batch at `pos` is whole and has the bytes its CRC was made of."""
    if len(buf) - pos < header.size_bytes:
        return False
    return compute_crc(buf, pos, header) == header.crc


def is_compressed(buf: Buffer) -> bool:
    """Whether the batch at the start of `buf`, of which nothing was checked, names a codec."""
    low_byte_at = _ATTRIBUTES_AT + 1
    return len(buf) > low_byte_at and bool(buf[low_byte_at] & CODEC_MASK)


def is_of_transaction(buf: Buffer) -> bool:
    """Whether the batch at the start of `buf`, of which nothing was checked, says that it is one of
    a transaction."""
    if len(buf) < HEADER_BYTES or buf[MAGIC_AT] != MAGIC:
        return False
    return bool(buf[_ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT)


def require_crc(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Raise BatchError CORRUPT_MESSAGE unless the CRC holds."""
    if len(buf) - pos < header.size_bytes:
        reason = f"the batch of {header.size_bytes} bytes is cut after {len(buf) - pos}"
    elif (found := compute_crc(buf, pos, header)) != header.crc:
        kind = "CRC-32C" if header.magic == MAGIC else "CRC-32"
        reason = f"CRC mismatch: {kind} is {found:#010x}, the header says {header.crc:#010x}"
    else:
        return
    raise BatchError(ErrorCode.CORRUPT_MESSAGE, reason, offset=header.base_offset)


def pack_header(buf: bytearray | memoryview, header: BatchHeader) -> None:
    """Write `header` over the first bytes of `buf`, its CRC as given."""
    _HEADER.pack_into(buf, 0, *header)


def stamp(buf: bytearray | memoryview, pos: int, *, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at `pos` its place in the log; neither field is under the CRC."""
    _TIMESTAMP.pack_into(buf, pos, base_offset)
    _LENGTH.pack_into(buf, pos + LENGTH_OVERHEAD_BYTES, leader_epoch)


def stamp_log_append_time(buf: bytearray | memoryview, pos: int, timestamp_ms: int) -> None:
    """Make `timestamp_ms` the time of all records of the batch at `pos`, and recompute the CRC."""
    attributes = _ATTRIBUTES.unpack_from(buf, pos + _ATTRIBUTES_AT)[0] | LOG_APPEND_TIME_BIT
    _ATTRIBUTES.pack_into(buf, pos + _ATTRIBUTES_AT, attributes)
    stamp_max_timestamp(buf, pos, timestamp_ms)


def stamp_max_timestamp(buf: bytearray | memoryview, pos: int, timestamp_ms: int) -> None:
    """Set the max timestamp of the batch at `pos`, and recompute the CRC."""
    _TIMESTAMP.pack_into(buf, pos + _MAX_TIMESTAMP_AT, timestamp_ms)
    stamp_crc(buf, pos)


def stamp_producer(
    buf: bytearray | memoryview,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    *,
    transactional: bool = False,
    pos: int = 0,
) -> None:
    """Say who wrote the batch at `pos` and where in its sequence it stands, and recompute the CRC.

    For producers that encode first and number when they send. `transactional` also sets that bit;
    without it the bit stays as it is.
    """
    _PRODUCER.pack_into(buf, pos + _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    if transactional:
        attributes = _ATTRIBUTES.unpack_from(buf, pos + _ATTRIBUTES_AT)[0] | TRANSACTIONAL_BIT
        _ATTRIBUTES.pack_into(buf, pos + _ATTRIBUTES_AT, attributes)
    stamp_crc(buf, pos)


def stamp_crc(buf: bytearray | memoryview, pos: int = 0) -> None:
    """Compute and write the CRC of the batch at `pos`. Raises ValueError if it is cut."""
    size_bytes = _LENGTH.unpack_from(buf, pos + 8)[0] + LENGTH_OVERHEAD_BYTES
    if not HEADER_BYTES <= size_bytes <= len(buf) - pos:
        raise ValueError(f"the batch of {size_bytes} bytes is cut after {len(buf) - pos}")
    crc = crc32c(memoryview(buf)[pos + _ATTRIBUTES_AT : pos + size_bytes])
    _CRC.pack_into(buf, pos + _CRC_AT, crc)
