"""A produced batch is made ready to append, or refused: every rule, with Kafka's code for it."""

from __future__ import annotations

import random
from struct import pack_into
from typing import Any

import lz4.frame
import pytest
from hypothesis import given, strategies as st

from fencepost.batch.compression import Codec, codec_of
from fencepost.batch.errors import BatchError
from fencepost.batch.header import HEADER_BYTES, check_crc, read_header, stamp_crc
from fencepost.batch.produced import ProduceRules, RefusedRecordsError, prepare_produced
from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import BatchBuilder, Record, read_records
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

from .samples import CODEC_NAMES, NOW_MS, RECORDS, build, wrap


def prepared(
    batch: Buffer,
    wall_ms: int = 0,
    *,
    allow_zstd: bool = True,
    inflated: int = 1 << 26,
    **rules: Any,
) -> RecordBatch:
    return prepare_produced(
        batch,
        ProduceRules(**{"max_batch_bytes": 1 << 20, **rules}),
        wall_ms,
        allow_zstd=allow_zstd,
        max_decompressed_bytes=inflated,
    )


def refused(batch: Buffer, wall_ms: int = 0, **settings: Any) -> BatchError:
    with pytest.raises(BatchError) as caught:
        prepared(batch, wall_ms, **settings)
    return caught.value


def changed(layout: str, at: int, *values: int) -> bytearray:
    """A batch with something else in its header, and a CRC that fits."""
    batch = build(RECORDS, producer_id=5, producer_epoch=0, base_sequence=0)
    pack_into(layout, batch, at, *values)
    stamp_crc(batch)
    return batch


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_sound_batch_passes_and_is_left_alone(codec):
    batch = build(RECORDS, codec, producer_id=1, producer_epoch=2, base_sequence=3)
    for buf in (bytes(batch), bytearray(batch), memoryview(bytearray(batch))):
        ready = prepared(buf, max_batch_bytes=len(batch))
        assert ready.header == read_header(batch)
        assert ready.data is buf and buf == batch


@pytest.mark.parametrize(
    ("batch", "code", "says"),
    [
        (b"", "INVALID_RECORD", "no record batch"),
        (build(RECORDS)[:60], "INVALID_RECORD", "60 bytes are no whole"),
        (bytes(16) + b"\x01" + bytes(20), "INVALID_RECORD", "v1"),
        (build(RECORDS)[:10], "INVALID_RECORD", "10 bytes are no whole"),
        (build(RECORDS)[:-1], "INVALID_RECORD", "is cut after"),
        (build(RECORDS) + b"\0", "INVALID_RECORD", "1 bytes follow the batch"),
        (build(RECORDS) + build(RECORDS), "INVALID_RECORD", "exactly one batch"),
        (changed(">b", 16, 0), "INVALID_RECORD", "v0"),
        (changed(">b", 16, 1), "INVALID_RECORD", "v1"),
        (changed(">q", 0, 1), "INVALID_RECORD", "base offset is 1"),
        (changed(">q", 0, -1), "INVALID_RECORD", "base offset is -1"),
        (changed(">b", 16, 3), "CORRUPT_MESSAGE", "magic is 3"),
        (changed(">h", 21, 5), "UNSUPPORTED_COMPRESSION_TYPE", "5"),
        (changed(">h", 21, 7), "UNSUPPORTED_COMPRESSION_TYPE", "7"),
        (changed(">h", 21, 0x08), "INVALID_TIMESTAMP", "a producer cannot"),
        (changed(">h", 21, 0x20), "INVALID_RECORD", "control"),
        (changed(">h", 21, 0x40), "INVALID_RECORD", "delete horizon"),
        (changed(">hiqqqhi", 21, 0x10, 3, NOW_MS, NOW_MS, -1, -1, -1), "INVALID_RECORD", "trans"),
        (changed(">i", 57, 0), "INVALID_RECORD", "claims 0 records"),
        (changed(">i", 57, -1), "INVALID_RECORD", "claims -1 records"),
        (changed(">i", 57, 3), "INVALID_RECORD", "does not fit"),
        (changed(">i", 57, 5), "INVALID_RECORD", "does not fit"),
        (changed(">i", 57, 2**31 - 1), "INVALID_RECORD", "does not fit"),
        (changed(">i", 23, -1), "INVALID_RECORD", "last offset delta -1"),
        (changed(">i", 23, 4), "INVALID_RECORD", "last offset delta 4"),
        (changed(">q", 43, -2), "INVALID_RECORD", "producer id is -2"),
        (changed(">h", 51, -1), "INVALID_RECORD", "has epoch -1"),
        (changed(">i", 53, -1), "INVALID_RECORD", "base sequence -1"),
        (changed(">q", 27, 2**63 - 1), "INVALID_TIMESTAMP", "beyond 64 bits"),
        (changed(">h", 21, 1), "INVALID_RECORD", "damaged gzip"),
        (changed(">h", 21, 2), "INVALID_RECORD", "damaged snappy"),
        (changed(">h", 21, 3), "INVALID_RECORD", "damaged lz4"),
        (changed(">h", 21, 4), "INVALID_RECORD", "damaged zstd"),
        (wrap(b"", 1), "INVALID_RECORD", "record 0 at byte 0 of the records: the records end"),
        (wrap(build(RECORDS)[HEADER_BYTES:], 3), "INVALID_RECORD", "behind the last record"),
        (wrap(build(RECORDS)[HEADER_BYTES:], 5), "INVALID_RECORD", "record 4"),
    ],
)
def test_what_is_wrong_has_a_code_and_a_reason(batch, code, says):
    error = refused(bytes(batch))
    assert error.code is ErrorCode[code]
    assert says in str(error)
    assert refused(bytearray(batch)).code is ErrorCode[code]


def test_every_flipped_bit_is_refused_but_those_the_leader_sets():
    batch = build(RECORDS)
    for bit in range(len(batch) * 8):
        batch[bit >> 3] ^= 1 << (bit & 7)
        if 96 <= bit < 128:  # the leader's epoch
            prepared(bytes(batch))
        else:
            refused(bytes(batch))
        batch[bit >> 3] ^= 1 << (bit & 7)


def test_a_batch_has_a_greatest_size():
    batch = build(RECORDS)
    prepared(batch, max_batch_bytes=len(batch))
    error = refused(batch, max_batch_bytes=len(batch) - 1)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert str(len(batch)) in str(error)
    huge = bytearray(batch)
    pack_into(">i", huge, 8, 2**31 - 1)
    assert refused(huge).code is ErrorCode.INVALID_RECORD  # it is cut, so no batch at all


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_compacted_topic_requires_keys(codec):
    batch = build(RECORDS, codec)
    error = refused(batch, key_required=True)
    assert error.code is ErrorCode.INVALID_RECORD
    assert "record 1" in str(error) and "no key" in str(error)
    with_keys = [record._replace(key=record.key or b"") for record in RECORDS]
    prepared(build(with_keys, codec), key_required=True)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_timestamps_have_bounds(codec):
    records = [record._replace(timestamp_ms=when) for record, when in zip(RECORDS, (5, -1, 9, 7))]
    batch = build(records, codec)
    bounds = {"timestamp_before_max_ms": 1, "timestamp_after_max_ms": 3}
    prepared(batch, 6, **bounds)
    for narrower in ({"timestamp_before_max_ms": 0}, {"timestamp_after_max_ms": 2}):
        error = refused(batch, 6, **(bounds | narrower))
        assert error.code is ErrorCode.INVALID_TIMESTAMP
        assert "outside the bounds" in str(error)


def test_zstd_needs_a_request_that_knows_it():
    batch = build(RECORDS, "zstd")
    error = refused(batch, allow_zstd=False)
    assert error.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    damaged = batch[:-1] + b"?"
    assert refused(damaged, allow_zstd=False).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    for codec in CODEC_NAMES[:-1]:
        prepared(build(RECORDS, codec), allow_zstd=False)


ODD = [
    Record(0, 5, 0, b"k", b"", ()),
    Record(1, 5, 0, None, b"", (("h", b"1"),)),
    Record(2, 100, 0, b"k", b"v" * 90, ()),
    Record(3, -1, 0, None, b"", ()),
    Record(4, 1, 0, None, b"", ()),
    Record(5, 5, 0, b"", None, ()),
]


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_every_unwelcome_record_is_told(codec):
    batch = build(ODD, codec)
    error = refused(batch, key_required=True)
    assert (type(error), error.code) == (RefusedRecordsError, ErrorCode.INVALID_RECORD)
    whole, records = error.answer("t-7")
    keyless = "Compacted topic cannot accept message without key in topic partition t-7"
    assert records == [(index, keyless) for index in (1, 3, 4)]
    assert whole.startswith(
        "One or more records have been rejected due to 3 record errors in total"
    )
    assert "[RecordError(batchIndex=1, message='Compacted" in whole
    error = refused(
        batch, 50, key_required=True, timestamp_before_max_ms=48, timestamp_after_max_ms=49
    )
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    whole, records = error.answer("t-7")
    assert whole == "One or more records have been rejected due to invalid timestamp"
    assert [(index, words == keyless) for index, words in records] == [
        (1, True),
        (2, False),
        (3, True),
        (4, True),  # the key is looked at first
    ]
    error = refused(batch, 5, timestamp_before_max_ms=0, timestamp_after_max_ms=0)
    assert error.answer("t-7")[1] == [
        (
            index,
            f"Timestamp {timestamp} of message with offset {index} is out of range. The timestamp"
            " should be within [5, 5]",
        )
        for index, timestamp in ((2, 100), (4, 1))
    ]


def test_a_record_that_is_not_sound_outweighs_the_unwelcome():
    payload = build(ODD)[HEADER_BYTES:]
    broken = wrap(bytes(payload[:-1]) + b"\x7f", len(ODD), build(ODD))
    error = refused(broken, key_required=True)
    assert type(error) is not RefusedRecordsError
    assert "record 5" in str(error)


def test_the_unwelcome_are_told_within_limits():
    batch = build([Record(0, 5, 0, None, b"", ())] * 3000)
    assert len(refused(batch, key_required=True).answer("t-0")[1]) == 1000
    late = [
        Record(0, 5, 0, None if at in (7, 9000, 20_000) else b"", b"", ()) for at in range(20_001)
    ]
    error = refused(build(late), key_required=True)
    assert [index for index, _ in error.answer("t-0")[1]] == [7, 9000]


@pytest.mark.parametrize("size_bytes", [10, 200_000])
@pytest.mark.parametrize("stored", [None, *Codec])
def test_lz4_blocks_that_depend_on_each_other_are_refused(stored, size_bytes):
    """Java's clients read no such frame, not even with one block; whatever the topic stores."""
    plain = build([Record(0, NOW_MS, 0, b"k", random.Random(1).randbytes(size_bytes))])
    context = lz4.frame.create_compression_context()
    frame = lz4.frame.compress_begin(context, block_linked=True)
    frame += lz4.frame.compress_chunk(context, bytes(plain[HEADER_BYTES:]))
    frame += lz4.frame.compress_flush(context)
    batch = plain[:HEADER_BYTES] + frame
    pack_into(">i", batch, 8, len(batch) - 12)
    pack_into(">h", batch, 21, Codec.LZ4)
    stamp_crc(batch)
    error = refused(batch, codec=stored)
    assert error.code is ErrorCode.INVALID_RECORD
    assert "blocks that depend on each other" in error.message
    assert [len(record.value) for record in read_records(batch)] == [size_bytes]


@pytest.mark.parametrize("size_bytes", range(8))
def test_an_lz4_frame_that_ends_in_its_head_is_damaged(size_bytes):
    plain = build([Record(0, NOW_MS, 0, b"k", b"v")])
    batch = plain[:HEADER_BYTES] + lz4.frame.compress(b"", block_linked=False)[:size_bytes]
    pack_into(">i", batch, 8, len(batch) - 12)
    pack_into(">h", batch, 21, Codec.LZ4)
    stamp_crc(batch)
    assert refused(batch).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_inflated_records_have_a_greatest_size(codec):
    records = [Record(0, NOW_MS, 0, None, bytes(50_000), ())]
    batch, size = build(records, codec), len(build(records)) - HEADER_BYTES
    prepared(batch, inflated=size)
    if codec != "none":
        error = refused(batch, inflated=size - 1)
        assert error.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("claimed", [-1, 0, NOW_MS, 2**62])
def test_a_wrong_max_timestamp_is_put_right(claimed):
    batch = build(RECORDS)
    pack_into(">q", batch, 35, claimed)
    stamp_crc(batch)
    assert refused(bytes(batch)).code is ErrorCode.INVALID_TIMESTAMP
    header = prepared(batch).header
    assert header == read_header(batch)
    assert header.max_timestamp == NOW_MS + 70_000
    assert check_crc(batch, 0, header)
    assert list(read_records(batch)) == RECORDS


@pytest.mark.parametrize("step", [-2, -1, 0, 1, 2])
def test_the_greatest_timestamp_is_known_wherever_it_stands(step):
    records = [Record(offset, NOW_MS + offset * step, 0, b"k", b"v", ()) for offset in range(3)]
    header = prepared(bytes(build(records))).header
    assert header.max_timestamp == NOW_MS + max(0, 2 * step)


# ---- what the topic stores


@pytest.mark.parametrize("wanted", CODEC_NAMES)
@pytest.mark.parametrize("sent", CODEC_NAMES)
def test_a_batch_is_stored_with_the_codec_of_the_topic(sent, wanted):
    batch = build(RECORDS, sent, producer_id=7, producer_epoch=1, base_sequence=3)
    before = bytes(batch)
    header, data = prepared(batch, codec=codec_of(wanted))
    assert header == read_header(data) and header.size_bytes == len(data)
    assert header.compression == codec_of(wanted)
    assert check_crc(data, 0, header)
    assert list(read_records(data)) == RECORDS
    unchanged = {"attributes": 0, "batch_length": 0, "crc": 0}
    assert header._replace(**unchanged) == read_header(before)._replace(**unchanged)
    assert batch == before
    assert (data is batch) == (sent == wanted)


def test_a_codec_is_used_at_the_level_of_the_topic():
    records = [Record(0, NOW_MS, 0, None, bytes(range(256)) * 200, ())]
    batch = build(records)
    sizes = [len(prepared(batch, codec=Codec.GZIP, level=level).data) for level in (1, 9)]
    assert sizes[0] > sizes[1]


def test_a_batch_that_outgrows_the_limit_when_it_is_stored_is_too_large():
    records = [Record(0, NOW_MS, 0, None, bytes(10_000), ())]
    batch, plain = build(records, "zstd"), len(build(records))
    prepared(batch, codec=Codec.NONE, max_batch_bytes=plain)
    error = refused(batch, codec=Codec.NONE, max_batch_bytes=plain - 1)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert str(plain) in str(error)


@pytest.mark.parametrize("codec", [None, Codec.NONE])
def test_a_batch_larger_than_a_segment_is_no_message_to_be_split(codec):
    records = [Record(0, NOW_MS, 0, None, bytes(10_000), ())]
    batch = build(records, "none" if codec is None else "zstd")
    plain = len(build(records))
    prepared(batch, codec=codec, segment_bytes=plain)
    error = refused(batch, codec=codec, segment_bytes=plain - 1)
    assert error.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert str(plain) in str(error)


def test_a_wrong_max_timestamp_is_put_right_also_in_what_is_compressed_anew():
    batch = build(RECORDS)
    pack_into(">q", batch, 35, -1)
    stamp_crc(batch)
    header, data = prepared(batch, codec=Codec.ZSTD)
    assert header == read_header(data)
    assert header.max_timestamp == NOW_MS + 70_000
    assert check_crc(data, 0, header)


@pytest.mark.parametrize("timestamp_ms", [-(2**63), 2**63 - 1])
def test_without_bounds_any_timestamp_is_taken(timestamp_ms):
    batch = build([Record(0, timestamp_ms, 0, b"k", b"v", ())])
    assert prepared(batch, NOW_MS).data is batch


def test_a_bound_that_leaves_64_bits_is_none():
    batch = build([Record(0, 2**63 - 1, 0, b"k", b"v", ())])
    prepared(batch, NOW_MS, timestamp_after_max_ms=2**63 - 1)
    refused(batch, -1, timestamp_after_max_ms=2**63 - 1)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=5),
    limit=st.integers(1, 320),
    with_header=st.booleans(),
)
def test_a_record_of_a_compressed_batch_may_be_as_large_as_the_topic_allows(
    codec: str, sizes: list[int], limit: int, with_header: bool
) -> None:
    """Kafka 4.4 compares what a record's length says (`DefaultRecord.readFrom`)."""
    builder = BatchBuilder(codec)
    lengths = []
    for delta, size in enumerate(sizes):
        headers = [("h", b"v")] if with_header else []
        builder.append(None, bytes(size), headers, timestamp_ms=delta)
        length_of_value = 1 if size < 64 else 2
        lengths.append(4 + length_of_value + size + 1 + (4 if with_header else 0))
    batch = builder.build()
    too_large = [one for one in lengths if one > limit]
    if codec == "none" or not too_large:
        prepared(batch, max_record_bytes=limit)
        return
    error = refused(batch, max_record_bytes=limit)
    assert error.code is ErrorCode.INVALID_RECORD
    assert f"its {too_large[0]} bytes are more than the topic allows" in str(error)


def test_a_record_that_is_too_large_is_told_before_those_that_are_not_welcome() -> None:
    builder = BatchBuilder("gzip")
    for size in (1, 100):
        builder.append(None, bytes(size), timestamp_ms=5)
    error = refused(builder.build(), key_required=True, max_record_bytes=50)
    assert error.code is ErrorCode.INVALID_RECORD
    assert not isinstance(error, RefusedRecordsError)
