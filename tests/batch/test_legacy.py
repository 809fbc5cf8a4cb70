"""Messages of formats v0 and v1: spelled out by hand, there and back, and beside kafka-python."""

from __future__ import annotations

import contextlib
import warnings
from struct import pack, unpack_from
from zlib import crc32

import cramjam
import lz4.frame
import pytest
from hypothesis import given, settings, strategies as st

from fencepost.batch.compression import CODECS, compress
from fencepost.batch.errors import BatchError
from fencepost.batch.header import check_crc, iter_headers, measure, read_header, require_crc
from fencepost.batch.legacy import build_message_set, read_messages
from fencepost.batch.produced import ProduceRules, prepare_produced
from fencepost.batch.records import Record, first_offset, read_payload, read_records
from fencepost.wire.errors import ErrorCode

from .samples import NOW_MS, build, byte_strings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.record.legacy_records as kafka_records
    from kafka.record.memory_records import MemoryRecords as KafkaMemoryRecords

OLD_CODECS = ["none", "gzip", "snappy", "lz4"]

PLAIN_V0 = bytes.fromhex(
    "0000000000000007"  # offset 7
    "00000012"  # 18 bytes follow
    "57e7496e"  # CRC-32 of what follows
    "00"  # magic
    "00"  # attributes: not compressed
    "00000002"
    "6b31"  # "k1"
    "00000002"
    "7631"  # "v1"
)
PLAIN_V1 = bytes.fromhex(
    "0000000000000008"  # offset 8
    "0000001a"  # 26 bytes follow
    "796d3222"  # CRC-32
    "01"  # magic
    "08"  # attributes: the broker's clock
    "00000000000003e8"  # 1000 ms
    "ffffffff"  # no key
    "00000004"
    "74657874"  # "text"
)
# As snappy-java frames it, a raw block that holds the whole inner message as one literal.
INNER_V1 = bytes.fromhex(
    "0000000000000000"  # offset 0, relative
    "00000016"  # 22 bytes follow
    "05a6fd7a"  # CRC-32
    "01"
    "00"
    "00000000000003eb"  # 1003 ms
    "00000000"  # an empty key
    "ffffffff"  # null
)
COMPRESSED_V1 = (
    bytes.fromhex(
        "0000000000000009"  # offset 9, of the last message within
        "0000004e"  # 78 bytes follow
        "3b6d7270"  # CRC-32
        "01"
        "02"  # snappy
        "00000000000003eb"
        "ffffffff"
        "00000038"  # 56 bytes
        "82534e4150505900"  # snappy-java's magic
        "00000001"
        "00000001"
        "00000024"  # a block of 36 bytes
        "22"  # 34 bytes of output
        "84"  # a literal of 34 bytes
    )
    + INNER_V1
)


def with_crc(message: bytes) -> bytes:
    """The message with the CRC it should have."""
    return message[:12] + pack(">I", crc32(message[16:])) + message[16:]


def message(
    magic: int,
    value: bytes | None,
    *,
    offset: int = 0,
    attributes: int = 0,
    timestamp: int = 1000,
    key: bytes | None = None,
) -> bytes:
    """A message with a sound CRC, of any attributes."""
    body = pack(">bb", magic, attributes) + (pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        body += pack(">i", -1 if part is None else len(part)) + (part or b"")
    return pack(">qiI", offset, len(body) + 4, crc32(body)) + body


def wrapped(magic: int, codec: str, inner: bytes, **more: int) -> bytes:
    """A compressed message around `inner`."""
    attributes = CODECS[codec] | more.pop("attributes", 0)
    return message(magic, compress(codec, inner), attributes=attributes, **more)


def code_of(data: bytes) -> ErrorCode:
    with pytest.raises(BatchError) as caught:
        list(read_records(data, max_decompressed_bytes=1 << 20))
    return caught.value.code


# ---- golden


def test_a_message_of_v0_byte_by_byte():
    assert list(read_records(PLAIN_V0)) == [Record(7, -1, -1, b"k1", b"v1")]
    assert build_message_set([Record(7, 5, 0, b"k1", b"v1")], magic=0) == PLAIN_V0


def test_a_message_of_v1_byte_by_byte():
    record = Record(8, 1000, 1, None, b"text")
    assert list(read_records(PLAIN_V1)) == [record]
    assert build_message_set([record], magic=1) == PLAIN_V1


def test_a_compressed_message_byte_by_byte():
    assert list(read_records(COMPRESSED_V1)) == [Record(9, 1003, 0, b"", None)]


def test_what_a_header_says_of_messages():
    (_, plain), (_, stamped), (_, packed) = iter_headers(PLAIN_V0 + PLAIN_V1 + COMPRESSED_V1)
    assert (plain.magic, plain.base_offset, plain.last_offset, plain.records_count) == (0, 7, 7, 1)
    assert (plain.max_timestamp, plain.is_log_append_time) == (-1, False)
    assert (stamped.max_timestamp, stamped.is_log_append_time) == (1000, True)
    assert (packed.last_offset, packed.records_count, packed.compression) == (9, -1, 2)
    for header in (plain, stamped, packed):
        assert (header.partition_leader_epoch, header.producer_id, header.base_sequence) == (
            -1,
            -1,
            -1,
        )
        assert not (header.is_control or header.is_transactional or header.has_delete_horizon)


def test_attributes_that_mean_nothing_are_not_taken_for_those_of_batches():
    for magic, attributes in ((0, 0x78), (1, 0x70)):
        header = read_header(message(magic, b"v", attributes=attributes))
        assert header.attributes == 0
        assert not (header.is_control or header.is_transactional or header.is_log_append_time)


# ---- there and back


RECORDS = [
    Record(40, NOW_MS, 0, b"key", b"value"),
    Record(41, NOW_MS - 5, 0, None, b"v" * 200),
    Record(45, NOW_MS + 70_000, 0, b"", None),
    Record(46, -1, 0, b"k" * 70, b""),
]


def as_v0(records: list[Record]) -> list[Record]:
    return [record._replace(timestamp_ms=-1, timestamp_type=-1) for record in records]


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_there_and_back(magic, codec):
    blob = build_message_set(RECORDS, magic=magic, compression=codec)
    expected = RECORDS if magic else as_v0(RECORDS)
    for buf in (bytes(blob), blob, memoryview(blob)):
        assert list(read_records(buf)) == expected
    assert list(read_records(blob, start_offset=42)) == expected[2:]
    assert measure(blob).next_offset == 47
    assert measure(blob).batches == (4 if codec == "none" else 1)


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_the_brokers_time_goes_for_all(codec):
    stamped = [record._replace(timestamp_type=1, timestamp_ms=NOW_MS) for record in RECORDS]
    blob = build_message_set(stamped, magic=1, compression=codec)
    assert list(read_records(blob)) == stamped
    if codec != "none":  # a broker changes the outer message only
        inner = build_message_set(
            [record._replace(offset=record.offset - 40) for record in RECORDS], magic=1
        )
        outer = wrapped(1, codec, inner, offset=46, attributes=8, timestamp=NOW_MS)
        assert list(read_records(outer)) == stamped


@settings(max_examples=60)
@given(data=st.data())
def test_there_and_back_for_anything(data):
    pairs = data.draw(st.lists(st.tuples(byte_strings, byte_strings), min_size=1, max_size=8))
    gaps = data.draw(st.lists(st.integers(1, 2**33), min_size=len(pairs), max_size=len(pairs)))
    records, offset = [], data.draw(st.integers(0, 2**60))
    for (key, value), gap in zip(pairs, gaps, strict=True):
        records.append(Record(offset, data.draw(st.integers(-1, 2**62)), 0, key, value))
        offset += gap
    codec = data.draw(st.sampled_from(OLD_CODECS))
    assert list(read_records(build_message_set(records, magic=1, compression=codec))) == records
    v0 = build_message_set(records, magic=0, compression=codec)
    assert list(read_records(v0)) == as_v0(records)


def test_formats_may_follow_each_other_in_any_order():
    v2 = build([Record(50, NOW_MS, 0, b"k", b"v", (("h", b"1"),))], base_offset=50)
    old = build_message_set(RECORDS[:2], magic=0, compression="gzip")
    older = build_message_set(RECORDS[2:], magic=1)
    blob = bytes(old + older + v2)
    assert [record.offset for record in read_records(blob)] == [40, 41, 45, 46, 50]
    assert [record.offset for record in read_records(blob + blob)][5:] == [40, 41, 45, 46, 50]
    assert [header.magic for _, header in iter_headers(blob)] == [0, 1, 1, 2]
    for size in range(len(blob)):  # cut anywhere: what is whole comes out, and nothing is said
        whole = measure(blob[:size])
        assert list(read_records(blob[:size])) == list(read_records(blob[: whole.size_bytes]))


def test_where_a_blob_begins():
    behind = build(RECORDS[:1], base_offset=90)
    for codec in OLD_CODECS:
        assert first_offset(build_message_set(RECORDS, magic=1, compression=codec)) == 40
        assert first_offset(build_message_set(RECORDS, magic=0, compression=codec) + behind) == 40
    assert first_offset(behind) == 90
    with pytest.raises(BatchError):
        first_offset(COMPRESSED_V1[:-1])


def test_what_cannot_be_built():
    with pytest.raises(ValueError, match="at least one"):
        build_message_set([], magic=1)
    with pytest.raises(ValueError, match="0 or 1, not 2"):
        build_message_set(RECORDS, magic=2)
    with pytest.raises(ValueError, match="follows 41"):
        build_message_set([RECORDS[1], RECORDS[0]], magic=1)
    mixed = [RECORDS[0], RECORDS[1]._replace(timestamp_type=1)]
    with pytest.raises(ValueError, match="one type"):
        build_message_set(mixed, magic=1, compression="gzip")
    assert list(read_records(build_message_set(mixed, magic=1))) == mixed
    with pytest.raises(BatchError, match="knows no zstd") as caught:
        build_message_set(RECORDS, magic=0, compression="zstd")
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(BatchError) as caught:
        build_message_set([RECORDS[0]._replace(timestamp_ms=-2)], magic=1)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


# ---- offsets of compressed messages


def inner_set(magic: int, *offsets: int) -> bytes:
    return b"".join(message(magic, b"v", offset=offset) for offset in offsets)


@pytest.mark.parametrize(
    ("magic", "outer", "inner", "expected"),
    [
        (0, 12, (10, 11, 12), [10, 11, 12]),  # absolute
        (0, 0, (0, 1, 2), [0, 1, 2]),
        (0, -1, (0, 1, 2), [0, 1, 2]),
        (0, 99, (10, 12), [10, 12]),  # whatever the outer one says
        (1, 12, (0, 1, 2), [10, 11, 12]),  # relative
        (1, 12, (0, 2), [10, 12]),  # compacted
        (1, 12, (10, 11, 12), [10, 11, 12]),  # a base of 0
        (1, 0, (0, 1, 2), [0, 1, 2]),  # a producer that left it 0
        (1, 5, (0,), [5]),
    ],
)
def test_offsets_within(magic, outer, inner, expected):
    blob = wrapped(magic, "gzip", inner_set(magic, *inner), offset=outer)
    assert [record.offset for record in read_records(blob)] == expected


def test_offsets_within_that_cannot_be():
    for outer in (1, -1):
        too_low = wrapped(1, "gzip", inner_set(1, 0, 1, 2), offset=outer)
        assert code_of(too_low) is ErrorCode.INVALID_RECORD
    negative = wrapped(1, "gzip", inner_set(1, -(2**40), 2), offset=9)
    assert code_of(negative) is ErrorCode.INVALID_RECORD


def test_magics_within_may_differ_as_in_kafka():
    inner = message(0, b"a", offset=0) + message(1, b"b", offset=1, timestamp=77)
    for attributes, timestamp in ((0, 77), (8, 1000)):
        outer = wrapped(1, "gzip", inner, offset=11, attributes=attributes)
        assert list(read_records(outer)) == [
            Record(10, -1, attributes >> 3, None, b"a"),
            Record(11, timestamp, attributes >> 3, None, b"b"),
        ]
    assert list(read_records(wrapped(0, "gzip", inner, offset=1)))[1] == (
        Record(1, 77, -1, None, b"b")
    )


# ---- codecs


def xxhash32(data: bytes) -> int:
    """Of less than sixteen bytes: what lz4's header checksum is made of, written down again."""
    primes = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
    mask = 0xFFFFFFFF

    def rotate(value: int, by: int) -> int:
        return (value << by | value >> 32 - by) & mask

    value, at = (primes[4] + len(data)) & mask, 0
    while at + 4 <= len(data):
        (lane,) = unpack_from("<I", data, at)
        value = rotate((value + lane * primes[2]) & mask, 17) * primes[3] & mask
        at += 4
    for byte in data[at:]:
        value = rotate((value + byte * primes[4]) & mask, 11) * primes[0] & mask
    for shift, prime in ((15, primes[1]), (13, primes[2])):
        value = (value ^ value >> shift) * prime & mask
    return value ^ value >> 16


def test_lz4_of_v0_is_broken_as_kafkas_was():
    def frame(magic: int) -> bytes:
        blob = build_message_set(RECORDS, magic=magic, compression="lz4")
        return bytes(blob[12 + (14 if magic == 0 else 22) :])

    right, broken = frame(1), frame(0)
    assert right[6] == xxhash32(right[4:6]) >> 8 & 0xFF
    assert broken[6] == xxhash32(broken[:6]) >> 8 & 0xFF != right[6]
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(broken)


@pytest.mark.parametrize("options", [
    {}, {"block_linked": False}, {"store_size": False}, {"block_size": 7},
    {"content_checksum": True, "block_checksum": True},
])  # fmt: skip
def test_lz4_of_v0_has_any_header_checksum_and_of_v1_the_right_one(options):
    data = inner_set(0, 0, 1) * 1 + message(0, b"x" * 100_000, offset=2)
    frame = lz4.frame.compress(data, **options)
    checksum_at = 14 if frame[4] & 8 else 6
    for change in (0, 1, 0x80):
        changed = bytearray(frame)
        changed[checksum_at] ^= change
        for magic in (0, 1):
            outer = message(magic, bytes(changed), attributes=3, offset=2)
            if magic and change:
                assert code_of(outer) is ErrorCode.CORRUPT_MESSAGE
            else:
                assert [len(record.value) for record in read_records(outer)] == [1, 1, 100_000]


@pytest.mark.parametrize("head", ["04224d18", "04224d186140", "04224d18a040", "04224d186230",
                                  "04224d186048", "05224d186040", "04224d1860c0"])  # fmt: skip
def test_lz4_headers_that_cannot_be(head):
    outer = message(0, bytes.fromhex(head) + bytes(20), attributes=3)
    assert code_of(outer) is ErrorCode.CORRUPT_MESSAGE


def test_raw_snappy_is_read():
    raw = bytes(cramjam.snappy.compress_raw(inner_set(1, 0, 1)))
    assert len(list(read_records(message(1, raw, attributes=2, offset=1)))) == 2


# ---- what is refused


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_that_nobody_may_write(magic):
    inner = inner_set(magic, 0)
    twice = wrapped(magic, "gzip", wrapped(magic, "snappy", inner))
    assert code_of(twice) is ErrorCode.INVALID_RECORD
    assert code_of(wrapped(magic, "zstd", inner)) is ErrorCode.INVALID_RECORD
    assert code_of(wrapped(magic, "gzip", b"")) is ErrorCode.INVALID_RECORD
    assert code_of(message(magic, None, attributes=1)) is ErrorCode.INVALID_RECORD
    assert code_of(message(magic, b"", attributes=5)) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert code_of(wrapped(magic, "gzip", message(2, b"v"))) is ErrorCode.CORRUPT_MESSAGE
    damaged = bytearray(inner)
    damaged[-1] ^= 1
    assert code_of(wrapped(magic, "gzip", bytes(damaged))) is ErrorCode.CORRUPT_MESSAGE


def test_batches_only_where_producers_come_in():
    for blob in (PLAIN_V0, PLAIN_V1, COMPRESSED_V1):
        with pytest.raises(BatchError):
            prepare_produced(bytearray(blob), ProduceRules(1 << 20))
        with pytest.raises(BatchError) as caught:
            read_payload(blob, 0, read_header(blob))
        assert caught.value.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_the_crc_is_zlibs_and_goes_from_the_magic_on():
    for blob in (PLAIN_V0, PLAIN_V1, COMPRESSED_V1):
        for bit in range(8 * 12, 8 * len(blob)):
            flipped = bytearray(blob)
            flipped[bit >> 3] ^= 1 << (bit & 7)
            if bit >> 3 == 16:
                continue  # another magic, another format
            assert not check_crc(flipped, 0, read_header(flipped))
            with pytest.raises(BatchError, match="CRC-32 is"):
                require_crc(flipped, 0, read_header(flipped))


def sound_sets() -> list[bytes]:
    return [
        bytes(build_message_set(RECORDS, magic=magic, compression=codec))
        for magic in (0, 1)
        for codec in OLD_CODECS
    ]


@pytest.mark.parametrize("blob", sound_sets())
def test_a_message_cut_at_every_byte_is_told_or_passed_over(blob):
    (_, header), *_ = iter_headers(blob)
    for size in range(len(blob)):
        assert len(list(read_records(blob[:size]))) < len(RECORDS)
        if size < header.size_bytes:
            with pytest.raises(BatchError):
                read_messages(blob[:size], 0, header)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_inner_set_cut_at_every_byte_is_refused(magic):
    inner = bytes(
        build_message_set(
            [record._replace(offset=at) for at, record in enumerate(RECORDS)], magic=magic
        )
    )
    bounds = {pos for pos, _ in iter_headers(inner)}
    for size in range(1, len(inner)):
        outer = wrapped(magic, "lz4", inner[:size], offset=3)
        if size in bounds:
            assert len(list(read_records(outer))) == sorted(bounds).index(size)
        else:
            assert code_of(outer) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("lie", [-(2**31), -2, -1, 0, 1, 5, 2**31 - 1])
def test_every_length_may_lie(magic, lie):
    plain = message(magic, b"value", key=b"key", offset=3)
    key_at = 18 + 8 * magic
    for at in (8, key_at, key_at + 4 + 3):
        changed = bytearray(plain)
        if changed[at : at + 4] == pack(">i", lie):
            continue
        changed[at : at + 4] = pack(">i", lie)
        outcomes = set()
        for blob in (with_crc(bytes(changed)), bytes(changed)):
            for data in (blob, wrapped(magic, "gzip", blob, offset=3)):
                try:
                    outcomes |= {record.value for record in read_records(data)}
                except BatchError as error:
                    outcomes.add(error.code.name)
        assert outcomes <= {"CORRUPT_MESSAGE"}


@settings(max_examples=300)
@given(data=st.data())
def test_garbage_never_escapes_the_error(data):
    blob = bytearray(data.draw(st.sampled_from(sound_sets())))
    for _ in range(data.draw(st.integers(1, 4))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    fix = data.draw(st.booleans())
    with contextlib.suppress(BatchError):
        list(read_records(with_crc(bytes(blob)) if fix else bytes(blob), check=not fix))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_inflation_has_a_limit(magic, codec):
    bomb = wrapped(magic, codec, message(magic, bytes(1 << 25)))
    assert code_of(bomb) is ErrorCode.MESSAGE_TOO_LARGE


# ---- kafka-python


class _PlainRecords:
    def __init__(self, blob: bytes) -> None:
        self._blob = blob

    def rows(self) -> list[tuple[object, ...]]:
        batches = KafkaMemoryRecords(self._blob)
        return [
            (row.offset, row.timestamp, row.timestamp_type, row.key, row.value)
            for batch in iter(batches.next_batch, None)
            for row in batch
        ]


def theirs(record: Record) -> tuple[object, ...]:
    """What kafka-python gives for a record: None where there is no timestamp."""
    if record.timestamp_type < 0:
        return record.offset, None, None, record.key, record.value
    return record[:5]


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_kafka_python_reads_ours(magic, codec):
    if (magic, codec) == (0, "lz4"):
        pytest.importorskip("xxhash")
    blob = bytes(build_message_set(RECORDS, magic=magic, compression=codec))
    expected = RECORDS if magic else as_v0(RECORDS)
    assert _PlainRecords(blob).rows() == [theirs(record) for record in expected]


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_ours_reads_what_kafka_python_builds(magic, codec):
    if (magic, codec) == (0, "lz4"):
        pytest.importorskip("xxhash")
    builder = kafka_records.LegacyRecordBatchBuilder(
        magic=magic, compression_type=CODECS[codec], batch_size=1 << 20
    )
    rows = [(at, NOW_MS + at, b"k%d" % at if at % 3 else None, b"v" * at) for at in range(30)]
    for row in rows:
        assert builder.append(*row) is not None
    blob = bytes(builder.build())
    assert [
        (record.offset, record.timestamp_ms, record.key, record.value)
        for record in read_records(blob)
    ] == [(at, time if magic else -1, key, value) for at, time, key, value in rows]
