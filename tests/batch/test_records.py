"""Records one by one: round trips, what building refuses, and what reading skips."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings

from fencepost.batch.errors import BatchError
from fencepost.batch.header import (
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    read_header,
    stamp_crc,
)
from fencepost.batch.legacy import build_message_set
from fencepost.batch.produced import ProduceRules, prepare_produced
from fencepost.batch.records import (
    BatchBuilder,
    Record,
    build_batch,
    read_batch,
    read_first,
    read_payload,
    read_records,
    read_rows,
    read_rows_in_parts,
    record_bytes_max,
)
from fencepost.batch.walk import Reason, RecordError, read_record
from fencepost.wire.errors import ErrorCode

from .samples import (
    CODEC_NAMES,
    NOW_MS,
    RECORDS,
    build,
    byte_strings,
    header_lists,
    many,
    record_lists as lists,
    wrap,
)


@pytest.mark.parametrize("codec", CODEC_NAMES)
@settings(max_examples=60)
@given(records=lists())
def test_what_is_built_is_read(codec, records):
    batch = build(records, codec, base_offset=0, leader_epoch=3)
    assert list(read_records(batch)) == records
    header = prepare_produced(bytes(batch), ProduceRules(len(batch))).header
    assert header.records_count == len(records)
    assert header.max_timestamp == max(-1, *(record.timestamp_ms for record in records))


@settings(max_examples=60)
@given(key=byte_strings, value=byte_strings, headers=header_lists)
def test_the_bound_on_a_records_size_is_one(key, value, headers):
    builder = BatchBuilder()
    builder.append(key, value, headers, timestamp_ms=2**62)
    before = builder.size_bytes
    builder.append(key, value, headers, timestamp_ms=-(2**61))
    added = builder.size_bytes - before
    assert added <= record_bytes_max(key, value, headers) <= added + 36 + 10 * len(headers)
    assert len(builder.build()) == builder.size_bytes


def test_offsets_count_from_the_base():
    batch = build(RECORDS, base_offset=100)
    assert [record.offset for record in read_records(batch)] == [100, 101, 102, 103]
    assert [record.offset for record in read_records(batch, start_offset=102)] == [102, 103]
    assert list(read_records(batch, start_offset=104)) == []


def test_batches_follow_each_other_and_a_cut_one_is_left():
    blob = many(1, 3, 5)
    offsets = [record.offset for record in read_records(blob)]
    assert len(offsets) == 15 and offsets == sorted(set(offsets))
    assert [record.offset for record in read_records(blob[:-1])] == offsets[:10]


def test_control_batches_are_left_out_unless_asked_for():
    blob = bytes(build(RECORDS[:1]) + build(RECORDS[:1], base_offset=1, control=True))
    assert [record.offset for record in read_records(blob)] == [0]
    assert [record.offset for record in read_records(blob, include_control=True)] == [0, 1]


def test_a_delete_horizon_is_a_base_like_any_other():
    batch = build(RECORDS)
    batch[22] |= DELETE_HORIZON_BIT
    stamp_crc(batch)
    assert read_header(batch).has_delete_horizon
    assert list(read_records(batch)) == RECORDS


def test_a_batch_that_compaction_emptied_has_no_records():
    batch = wrap(b"", 0)
    batch[23:27] = (4).to_bytes(4, "big")
    stamp_crc(batch)
    assert list(read_records(batch)) == []
    assert read_header(batch).next_offset == 5


def test_gaps_that_compaction_left_are_gaps():
    """Records 1 and 3 of five, as they stood."""
    payload = bytes.fromhex("0c00000201" "0100" "0c00000601" "0100")  # fmt: skip
    batch = wrap(payload, 2)
    batch[23:27] = (4).to_bytes(4, "big")
    stamp_crc(batch)
    assert [record.offset for record in read_records(batch)] == [1, 3]
    with pytest.raises(BatchError, match="offset delta"):
        prepare_produced(batch, ProduceRules(1000))


def test_header_keys_that_are_not_utf8_are_replaced():
    payload = bytes.fromhex("14000000" "01" "01" "02" "04ffc3" "01" )  # fmt: skip
    payload = bytes([2 * (len(payload) - 1)]) + payload[1:]
    (record,) = read_records(wrap(payload, 1))
    assert record.headers == (("��", None),)


def test_numbers_may_be_written_longer_than_needed():
    """A varint padded with empty groups is the same number (no client is known to do it)."""
    payload = bytes.fromhex("1200" "8000" "8000" "8100" "01" "00")  # fmt: skip
    payload = bytes([2 * (len(payload) - 1)]) + payload[1:]
    (record,) = read_records(wrap(payload, 1))
    assert (record.key, record.value) == (None, None)


def test_damage_is_told_before_any_record_of_the_batch_is_given():
    good, bad = build(RECORDS), build(RECORDS, base_offset=50)
    bad[-1] ^= 1
    records = read_records(bytes(good + bad))
    assert [next(records) for _ in RECORDS] == RECORDS
    with pytest.raises(BatchError, match="CRC-32C is") as caught:
        next(records)
    assert caught.value.offset == 50
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    # Without the check the reason is found in the record, or not at all.
    with pytest.raises(RecordError, match="record 3"):
        list(read_records(bad, check=False))


def test_an_invalid_record_says_where_it_is_and_survives_pickling():
    batch = wrap(build(RECORDS[:2])[HEADER_BYTES:] + b"\x02\x00", 3)
    with pytest.raises(RecordError) as caught:
        list(read_records(batch))
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == str(caught.value)
    assert (error.reason, error.code, error.offset) == (Reason.LENGTH, ErrorCode.CORRUPT_MESSAGE, 0)
    assert "record 2 at byte 241 of the records: its length cannot be 1" in str(error)


def test_decompression_is_bounded_and_names_the_batch():
    batch = build([Record(0, NOW_MS, 0, None, bytes(100_000), ())], "zstd", base_offset=7)
    assert len(list(read_records(batch))) == 1
    with pytest.raises(BatchError, match="beyond the limit of 99999 bytes") as caught:
        list(read_records(batch, max_decompressed_bytes=99_999))
    assert (caught.value.offset, caught.value.code) == (7, ErrorCode.MESSAGE_TOO_LARGE)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("text", None), TypeError),
        ((None, 5), TypeError),
        ((None, None, [("a", "b")]), TypeError),
        ((None, None, [(b"a", b"b")]), AttributeError),
    ],
)
def test_what_is_no_record_is_refused(arguments, error):
    builder = BatchBuilder()
    builder.append(b"good", b"one", timestamp_ms=0)
    with pytest.raises(error):
        builder.append(*arguments, timestamp_ms=0)
    assert builder.count == 1
    assert [record.key for record in read_records(builder.build())] == [b"good"]


def test_timestamps_beyond_64_bits_are_refused():
    builder = BatchBuilder()
    for timestamp in (2**63, -(2**63) - 1):
        with pytest.raises(OverflowError, match="64 bits"):
            builder.append(None, None, timestamp_ms=timestamp)
    builder.append(None, None, timestamp_ms=-5)
    with pytest.raises(OverflowError, match="64 bits"):
        builder.append(None, None, timestamp_ms=2**63 - 1)
    builder.append(None, None, timestamp_ms=2**63 - 6)
    assert [record.timestamp_ms for record in read_records(builder.build())] == [-5, 2**63 - 6]


def test_a_batch_has_a_record():
    with pytest.raises(ValueError, match="at least one record"):
        BatchBuilder().build()


def test_items_may_be_records_or_tuples():
    batch = build_batch([(b"k", b"v"), (None, None, [("h", b"x")]), RECORDS[0]], timestamp_ms=9)
    assert list(read_records(batch)) == [
        Record(0, 9, 0, b"k", b"v", ()),
        Record(1, 9, 0, None, None, (("h", b"x"),)),
        RECORDS[0]._replace(offset=2),
    ]


def test_buffers_of_all_kinds_are_taken_and_read():
    builder = BatchBuilder()
    builder.append(bytearray(b"k"), memoryview(b"v"), [("h", bytearray(b"x"))], timestamp_ms=0)
    batch = builder.build()
    for buf in (bytes(batch), batch, memoryview(batch), memoryview(bytes(batch))):
        (record,) = read_records(buf)
        assert record == Record(0, 0, 0, b"k", b"v", (("h", b"x"),))
        assert type(record.key) is bytes


@settings(max_examples=60)
@given(records=lists())
def test_the_first_records_are_those_that_go_into_the_limits(records):
    batch = build(records, "gzip", base_offset=0)
    header = read_header(batch)
    weights = [1 + len(record.headers) for record in records]
    for count in range(len(records) + 1):
        room = sum(weights[:count])
        found, has_more = read_first(batch, 0, header, max_items=room, max_bytes=1 << 20)
        assert found == records[:count] and has_more == (count < len(records))
    assert read_first(batch, 0, header, max_items=sum(weights), max_bytes=1) == ([], True)


def test_of_records_beyond_the_limit_nothing_is_read(monkeypatch):
    batch = build_batch([(None, None)] * 5000, timestamp_ms=0, compression="gzip")
    looks = 0

    def counted(*arguments):
        nonlocal looks
        looks += 1
        return read_record(*arguments)

    monkeypatch.setattr("fencepost.batch.records.read_record", counted)
    found, has_more = read_first(batch, 0, read_header(batch), max_items=10, max_bytes=1 << 20)
    assert len(found) == 10 and has_more and looks <= 2 * 11


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_first_messages_of_old_formats(codec):
    records = [Record(offset, 5, 0, b"k", b"v" * 100) for offset in range(20)]
    data = build_message_set(records, magic=1, compression=codec)
    header = read_header(data)
    whole = read_batch(data, 0, header)
    for items in range(len(whole) + 1):
        found, has_more = read_first(data, 0, header, max_items=items, max_bytes=1 << 20)
        assert found == whole[:items] and has_more == (items < len(whole))
    assert read_first(data, 0, header, max_items=20, max_bytes=100) == ([], True)


def test_an_invalid_record_before_the_limit_is_an_error():
    batch = build_batch([(b"k", b"v")] * 3, timestamp_ms=0)
    batch[HEADER_BYTES] = 0x7F  # the length of the first
    with pytest.raises(RecordError, match="record 0"):
        read_first(batch, 0, read_header(batch), max_items=2, max_bytes=1 << 20)


@pytest.mark.parametrize("rows_max", [1, 3, 10, 11])
def test_rows_in_parts_are_the_rows(rows_max):
    batch = build_batch([(b"k%d" % at, b"v" * at) for at in range(10)], timestamp_ms=7)
    header = read_header(batch)
    payload = read_payload(batch, 0, header)
    parts = list(read_rows_in_parts(payload, header, rows_max))
    assert all(len(part) == rows_max for part in parts[:-1])
    assert [row for part in parts for row in part] == read_rows(payload, header)


@pytest.mark.parametrize("rows_max", [1, 3, 9, 10, 11])
@pytest.mark.parametrize("spoil", [lambda p: p + b"x", lambda p: p[:-1], lambda p: p[:-9]])
def test_rows_in_parts_are_refused_as_the_rows_are(rows_max, spoil):
    batch = build_batch([(b"k%d" % at, b"v" * 5) for at in range(10)], timestamp_ms=7)
    header = read_header(batch)
    payload = spoil(bytes(read_payload(batch, 0, header)))
    with pytest.raises(RecordError) as whole:
        read_rows(payload, header)
    with pytest.raises(RecordError) as in_parts:
        list(read_rows_in_parts(payload, header, rows_max))
    assert str(in_parts.value) == str(whole.value)
    assert in_parts.value.report == whole.value.report


def test_an_empty_batch_has_one_empty_part():
    header = read_header(build_batch([(b"k", b"v")], timestamp_ms=7))._replace(records_count=0)
    assert list(read_rows_in_parts(b"", header, 5)) == [[]]
