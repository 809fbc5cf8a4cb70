"""Up and down between the formats, and messages as columns."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from fencepost.batch.columns import SCHEMA, decode_columns
from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.conversion import down_convert, iter_message_runs, up_convert
from fencepost.batch.errors import BatchError
from fencepost.batch.header import check_crc, iter_headers, stamp_log_append_time
from fencepost.batch.legacy import build_message_set
from fencepost.batch.records import Record, read_records
from fencepost.wire.errors import ErrorCode

from .samples import NOW_MS, build, byte_strings
from .test_legacy import OLD_CODECS, RECORDS, as_v0, inner_set, message, wrapped

NEWER = [Record(60 + at, NOW_MS + at, 0, b"n%d" % at, b"v", ()) for at in range(4)]


def mixed_blob(codec: str) -> bytes:
    """v0, v1 of the producer's time, v1 of the broker's, v2, and v1 once more."""
    stamped = [Record(50 + at, NOW_MS, 1, None, b"s%d" % at) for at in range(3)]
    again = [Record(70, NOW_MS, 0, b"again", b"")]
    return b"".join(
        (
            build_message_set(as_v0([Record(3, 1, 0, b"a", None)]), magic=0, compression=codec),
            build_message_set(RECORDS, magic=1, compression=codec),
            build_message_set(stamped, magic=1, compression=codec),
            build(NEWER, codec, base_offset=60),
            build_message_set(again, magic=1, compression=codec),
        )
    )


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_up_keeps_everything_there_is(codec):
    blob = mixed_blob(codec)
    raised = up_convert(blob)
    for pos, header in iter_headers(raised):
        assert header.magic == 2
        assert check_crc(raised, pos, header)
        assert header.compression == ["none", "gzip", "snappy", "lz4"].index(codec)
    expected = [record._replace(timestamp_type=max(record.timestamp_type, 0))
                for record in read_records(blob)]  # fmt: skip
    assert list(read_records(raised)) == expected
    assert [header.last_offset for _, header in iter_headers(raised)] == [3, 46, 52, 63, 70]
    assert up_convert(raised) == raised
    assert up_convert(b"") == b""


def test_plain_messages_are_gathered():
    rows = [Record(at, NOW_MS, 0, None, b"x" * 100) for at in range(25_000)]
    runs = list(iter_message_runs(build_message_set(rows, magic=1)))
    assert [record for run in runs for record in run.records] == rows
    assert all(len(run.records) <= 10_000 for run in runs)
    assert len(runs) < 10
    large = [Record(at, NOW_MS, 0, None, bytes(700_000)) for at in range(3)]
    assert [len(run.records) for run in iter_message_runs(build_message_set(large, magic=1))] == [
        1,
        1,
        1,
    ]


@pytest.mark.parametrize("offsets", [(0, 0, 0), (2, 1, 0), (0, 2**31, 2**31 + 1)])
def test_up_refuses_offsets_that_no_batch_can_say(offsets):
    blob = wrapped(0, "gzip", inner_set(0, *offsets), offset=max(offsets))
    assert [record.offset for record in read_records(blob)] == list(offsets)
    with pytest.raises(BatchError) as caught:
        up_convert(blob)
    assert caught.value.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    plain = inner_set(0, *offsets)  # as batches of their own they can
    assert [record.offset for record in read_records(up_convert(plain))] == list(offsets)


def test_up_checks_what_it_reads():
    blob = bytearray(mixed_blob("none"))
    blob[20] ^= 1
    with pytest.raises(BatchError, match="CRC-32 is"):
        up_convert(blob)
    far = message(1, b"", timestamp=-(2**62)) + message(1, b"", offset=1, timestamp=2**62 + 1)
    with pytest.raises(BatchError) as caught:
        up_convert(far)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_down_loses_what_the_format_lacks(magic, codec):
    rows = [Record(at, NOW_MS + at, 0, b"k", b"v%d" % at, (("h", b"1"),)) for at in range(10, 15)]
    marker = build_end_txn_marker(
        committed=True, coordinator_epoch=0, producer_id=7, producer_epoch=0, timestamp_ms=5,
        base_offset=15,
    )  # fmt: skip
    batch = build(rows, codec, base_offset=10, producer_id=7, producer_epoch=0, base_sequence=0,
                  transactional=True)  # fmt: skip
    old = build_message_set([Record(3, -1, -1, b"a", b"b")], magic=0)
    lowered = down_convert(old + batch + marker, magic)
    assert {header.magic for _, header in iter_headers(lowered)} == {0, magic}
    expected = [record._replace(headers=()) for record in rows]
    found = list(read_records(lowered))
    assert found == [Record(3, -1, -1, b"a", b"b"), *(expected if magic else as_v0(expected))]


def test_down_keeps_the_brokers_time():
    batch = build(NEWER, "gzip", base_offset=60)
    stamp_log_append_time(batch, 0, NOW_MS + 9)
    found = list(read_records(down_convert(batch, 1)))
    assert found == [row._replace(timestamp_ms=NOW_MS + 9, timestamp_type=1) for row in NEWER]


def test_down_leaves_out_what_was_not_asked_for():
    for codec, expected in (("none", [62, 63]), ("gzip", [60, 61, 62, 63])):
        lowered = down_convert(build(NEWER, codec, base_offset=60), 1, first_offset=62)
        assert [record.offset for record in read_records(lowered)] == expected
    assert down_convert(build(NEWER, base_offset=60), 1, first_offset=64) == b""


def test_down_refuses_what_cannot_be():
    with pytest.raises(BatchError) as caught:
        down_convert(build(NEWER, "zstd"), 1)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(ValueError, match="not 2"):
        down_convert(b"", 2)
    damaged = build(NEWER)
    damaged[-1] ^= 1
    with pytest.raises(BatchError, match="CRC-32C is"):
        down_convert(damaged, 1)


@settings(max_examples=60)
@given(data=st.data())
def test_up_and_down_meet(data):
    pairs = data.draw(st.lists(st.tuples(byte_strings, byte_strings), min_size=1, max_size=8))
    rows = [
        Record(at, data.draw(st.integers(-1, 2**60)), 0, key, value)
        for at, (key, value) in enumerate(pairs)
    ]
    codec = data.draw(st.sampled_from(OLD_CODECS))
    batch = build(rows, codec)
    lowered = down_convert(batch, 1)
    assert list(read_records(lowered)) == rows
    assert list(read_records(up_convert(lowered))) == rows


# ---- columns


def table_of(blob: bytes, **options: object) -> pa.Table:
    batches = list(decode_columns(blob, topic="t", partition=0, include_headers=True, **options))
    return pa.Table.from_batches(batches, schema=SCHEMA)


def rows_of(table: pa.Table) -> list[Record]:
    numbers = table.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        Record(
            row["offset"],
            micros // 1000,
            row["timestampType"],
            row["key"],
            row["value"],
            tuple((pair["key"], pair["value"]) for pair in row["headers"] or ()),
        )
        for row, micros in zip(table.to_pylist(), numbers, strict=True)
    ]


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_columns_are_those_of_the_records(codec):
    blob = mixed_blob(codec)
    expected = list(read_records(blob))
    for data in (blob, bytearray(blob), memoryview(blob)):
        assert rows_of(table_of(data)) == expected
    assert rows_of(table_of(blob, start_offset=41, end_offset=62)) == [
        record for record in expected if 41 <= record.offset < 62
    ]
    for end in (3, 4, 45, 52, 61, 70, 71):
        assert rows_of(table_of(blob, end_offset=end)) == [
            record for record in expected if record.offset < end
        ]
    for size in range(len(blob)):
        assert rows_of(table_of(blob[:size])) == list(read_records(blob[:size]))


@pytest.mark.parametrize("columns", [["key"], ["timestampType", "offset"], ["headers", "topic"]])
def test_any_columns_of_messages(columns):
    blob = mixed_blob("gzip")
    table = pa.Table.from_batches(decode_columns(blob, topic="t", partition=0, columns=columns))
    assert table == table_of(blob).select(columns)


def test_row_and_byte_limits_hold_for_messages():
    rows = [Record(at, 0, 0, None, bytes(at * 10)) for at in range(50)]
    blob = bytes(build_message_set(rows, magic=1, compression="gzip"))
    for batch in decode_columns(blob, topic="t", partition=0, max_rows=7):
        assert batch.num_rows <= 7
    batches = list(decode_columns(blob, topic="t", partition=0, max_bytes=300))
    assert sum(batch.num_rows for batch in batches) == 50
    for batch in batches:
        size = sum(len(value) for value in batch["value"].to_pylist())
        assert size <= 300 or batch.num_rows == 1


def test_damage_in_messages_is_told_after_what_was_sound():
    blob = bytearray(mixed_blob("none"))
    blob[-5] ^= 1  # the last letter of the last key
    rows = len(list(read_records(mixed_blob("none"))))
    found = decode_columns(bytes(blob), topic="t", partition=0, max_rows=1)
    assert sum(next(found).num_rows for _ in range(rows - 1)) == rows - 1
    with pytest.raises(BatchError) as caught:
        next(found)
    assert caught.value.offset == 70
    assert table_of(bytes(blob), check_crc=False).num_rows == rows
    with pytest.raises(BatchError) as caught:
        table_of(message(1, b"", timestamp=2**62))
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


def test_aborted_transactions_are_followed_across_formats():
    txn = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    blob = bytes(
        build_message_set(RECORDS, magic=1)
        + build(NEWER, base_offset=60, **txn)
        + build_message_set([Record(70, 1, 0, b"old", b"")], magic=1)
        + build(NEWER, base_offset=80, **txn)
    )
    table = table_of(blob, aborted=[(7, 60)])
    assert table["offset"].to_pylist() == [40, 41, 45, 46, 70]


def test_garbage_in_messages_is_the_same_to_both_readers():
    dice = random.Random(5)
    for codec in OLD_CODECS:
        blob = mixed_blob(codec)
        for _ in range(150):
            damaged = bytearray(blob)
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
            outcomes = []
            for read in (
                lambda data: list(read_records(data)),
                lambda data: rows_of(table_of(data)),
            ):
                try:
                    outcomes.append(read(bytes(damaged)))
                except BatchError as error:
                    outcomes.append((error.code, error.offset))
            assert outcomes[0] == outcomes[1]
