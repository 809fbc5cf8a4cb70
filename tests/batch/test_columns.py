"""Fetch answers into Arrow: the columns of Spark's Kafka source, whatever the backend."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from fencepost.batch import backend
from fencepost.batch.columns import HEADERS_TYPE, SCHEMA, decode_columns
from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.errors import BatchError
from fencepost.batch.header import TRANSACTIONAL_BIT, stamp_crc, stamp_log_append_time
from fencepost.batch.records import Record, read_records
from fencepost.wire.errors import ErrorCode

from .samples import CODEC_NAMES, NOW_MS, RECORDS, build, many, record_lists, wrap

PLACE: dict[str, Any] = {"topic": "events", "partition": 3}


def table_of(blob: bytes | bytearray | memoryview, **options: Any) -> pa.Table:
    batches = list(decode_columns(blob, **PLACE, **options))
    for batch in batches:
        batch.validate(full=True)
        assert batch.num_rows > 0
    schema = batches[0].schema if batches else None
    return pa.Table.from_batches(batches, schema=schema) if batches else pa.table({})


def rows_of(records: Iterable[Record]) -> list[dict[str, Any]]:
    """What the columns should hold, timestamps in microseconds."""
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "events",
            "partition": 3,
            "offset": record.offset,
            "timestamp": record.timestamp_ms * 1000,
            "timestampType": record.timestamp_type,
            "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
        }
        for record in records
    ]


def found_rows(table: pa.Table) -> list[dict[str, Any]]:
    if table.num_columns == 0:
        return []
    at = table.schema.get_field_index("timestamp")
    return table.set_column(at, "timestamp", table["timestamp"].cast(pa.int64())).to_pylist()


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_rows_are_the_records(codec):
    blob = many(4, 5, 40, codec)
    table = table_of(blob, include_headers=True)
    assert table.schema == SCHEMA
    assert found_rows(table) == rows_of(read_records(blob))


def test_headers_count_toward_the_bytes_although_they_are_empty():
    records = [Record(offset, NOW_MS, 0, None, None, (("", b""),) * 50) for offset in range(20)]
    sizes = [
        rows.num_rows
        for rows in decode_columns(build(records), **PLACE, include_headers=True, max_bytes=1000)
    ]
    assert sum(sizes) == 20
    assert len(sizes) > 1


def test_a_cut_batch_at_the_end_is_left_out_if_its_magic_is_not_wrong():
    whole = bytes(build(RECORDS))
    wrong = bytearray(whole)
    wrong[16] = 7
    for cut in range(61):
        assert table_of(whole + whole[:cut]).num_rows == len(RECORDS), cut
        if cut > 16:
            with pytest.raises(BatchError, match="magic"):
                table_of(whole + wrong[:cut])
        else:
            assert table_of(whole + wrong[:cut]).num_rows == len(RECORDS), cut


@settings(max_examples=60)
@given(st.lists(record_lists(6), min_size=1, max_size=4), st.sampled_from(CODEC_NAMES))
def test_rows_are_the_records_for_anything(lists, codec):
    blob, offset = bytearray(), 0
    for records in lists:
        records = [record._replace(timestamp_ms=record.timestamp_ms // 1000) for record in records]
        blob += build(records, codec, base_offset=offset)
        offset += len(records)
    assert found_rows(table_of(blob, include_headers=True)) == rows_of(read_records(blob))


def test_the_schema_is_the_one_spark_asks_for():
    assert [(field.name, str(field.type), field.nullable) for field in SCHEMA] == [
        ("key", "binary", True),
        ("value", "binary", True),
        ("topic", "string", True),
        ("partition", "int32", True),
        ("offset", "int64", True),
        ("timestamp", "timestamp[us, tz=UTC]", True),
        ("timestampType", "int32", True),
        ("headers", "list<element: struct<key: string, value: binary>>", True),
    ]
    assert table_of(build(RECORDS)).schema == pa.schema(list(SCHEMA)[:-1])


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_any_columns_in_any_order(codec):
    blob = many(4, 3, 10, codec)
    whole = table_of(blob, include_headers=True)
    for name in SCHEMA.names:
        assert table_of(blob, columns=[name]).equals(whole.select([name]))
    chosen = ["headers", "offset", "key"]
    assert table_of(blob, columns=chosen).equals(whole.select(chosen))
    given = pa.schema([SCHEMA.field("value"), SCHEMA.field("partition")], metadata={"a": "b"})
    table = table_of(blob, arrow_schema=given)
    assert table.schema.equals(given, check_metadata=True)


def test_sparks_own_schema_is_taken():
    spark_types = pytest.importorskip("pyspark.sql.types")
    pandas_types = pytest.importorskip("pyspark.sql.pandas.types")
    schema = pandas_types.to_arrow_schema(
        spark_types.StructType(
            [
                spark_types.StructField("key", spark_types.BinaryType()),
                spark_types.StructField("timestamp", spark_types.TimestampType()),
                spark_types.StructField(
                    "headers",
                    spark_types.ArrayType(
                        spark_types.StructType(
                            [
                                spark_types.StructField("key", spark_types.StringType()),
                                spark_types.StructField("value", spark_types.BinaryType()),
                            ]
                        )
                    ),
                ),
            ]
        ),
        timezone="UTC",
    )
    assert table_of(build(RECORDS), arrow_schema=schema).schema.equals(schema)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"columns": ["key", "nope"]}, "no column 'nope'"),
        ({"arrow_schema": pa.schema([("nope", pa.int32())])}, "no column 'nope'"),
        ({"arrow_schema": pa.schema([("key", pa.large_binary())])}, "'key' is binary, not large"),
        ({"arrow_schema": pa.schema([("timestamp", pa.timestamp("us"))])}, "'timestamp' is"),
        ({"max_rows": 0}, "max_rows 0"),
        ({"max_bytes": 0}, "max_bytes 0"),
    ],
)
def test_wrong_wishes_are_refused_at_once(options, says):
    with pytest.raises(ValueError, match=says):
        decode_columns(b"", **PLACE, **options)


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize(
    ("start", "end"), [(0, 10), (3, 4), (5, 25), (37, None), (36, 36), (1000, None), (0, 0)]
)
def test_only_offsets_asked_for(codec, start, end):
    blob = many(9, 6, 8, codec)
    expected = [
        record
        for record in read_records(blob)
        if record.offset >= start and (end is None or record.offset < end)
    ]
    found = table_of(blob, start_offset=start, end_offset=end, include_headers=True)
    assert found_rows(found) == rows_of(expected)


@pytest.mark.parametrize("codec", ["none", "snappy"])
@pytest.mark.parametrize("max_rows", [1, 2, 7, 40, 41, 79, 1000])
def test_record_batches_have_a_greatest_number_of_rows(codec, max_rows):
    blob = many(5, 4, 20, codec)
    batches = list(decode_columns(blob, **PLACE, max_rows=max_rows, include_headers=True))
    sizes = [batch.num_rows for batch in batches]
    assert sum(sizes) == 80 and set(sizes[:-1]) <= {max_rows} and sizes[-1] <= max_rows
    assert found_rows(pa.Table.from_batches(batches)) == rows_of(read_records(blob))


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("max_bytes", [1, 100, 1000, 5000])
def test_record_batches_have_a_greatest_size(codec, max_bytes):
    blob = many(6, 4, 20, codec, headers=0)
    batches = list(decode_columns(blob, **PLACE, max_bytes=max_bytes))
    records = rows_of(read_records(blob))
    assert [row["offset"] for batch in batches for row in batch.to_pylist()] == [
        record["offset"] for record in records
    ]
    sizes = [
        [len(row["key"] or b"") + len(row["value"] or b"") for row in batch.to_pylist()]
        for batch in batches
    ]
    for size, following in zip(sizes, [*sizes[1:], [max_bytes + 1]]):
        assert len(size) == 1 or sum(size) <= max_bytes
        assert sum(size) + following[0] > max_bytes  # and none is cut short


def test_a_cut_last_batch_is_left():
    blob = many(8, 2, 5)
    assert table_of(blob[:-1]).num_rows == 5
    assert table_of(blob[:60]).num_rows == 0
    assert table_of(b"").num_rows == 0


def test_control_batches_have_no_rows():
    marker = build_end_txn_marker(
        committed=True, coordinator_epoch=0, producer_id=1, producer_epoch=0, timestamp_ms=0
    )
    assert table_of(bytes(marker)).num_rows == 0
    assert table_of(bytes(marker + build(RECORDS, base_offset=1)))["offset"].to_pylist() == [
        1, 2, 3, 4
    ]  # fmt: skip


def transaction(offset: int, producer_id: int, codec: str = "none") -> bytearray:
    return build(
        RECORDS[:2],
        codec,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def ending(offset: int, producer_id: int, committed: bool) -> bytearray:
    return build_end_txn_marker(
        committed=committed,
        coordinator_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=0,
        base_offset=offset,
    )


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_aborted_transactions_have_no_rows(codec):
    blob = bytes(
        transaction(0, 1, codec)  # committed
        + transaction(2, 2, codec)  # aborted
        + ending(4, 1, committed=True)
        + build(RECORDS[:2], base_offset=5, producer_id=2, producer_epoch=0, base_sequence=2)
        + transaction(7, 1, codec)  # aborted
        + ending(9, 2, committed=False)
        + transaction(10, 2, codec)  # committed
        + transaction(12, 1, codec)  # still the aborted one
        + ending(14, 1, committed=False)
        + ending(15, 2, committed=True)
        + transaction(16, 1, codec)  # committed
    )
    aborted = [(2, 2), (1, 7)]
    uncommitted = table_of(blob)["offset"].to_pylist()
    assert uncommitted == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17]
    for order in (aborted, aborted[::-1]):
        committed = table_of(blob, aborted=order)["offset"].to_pylist()
        assert committed == [0, 1, 5, 6, 10, 11, 16, 17]
    later = table_of(blob, aborted=[(1, 7)], start_offset=8, end_offset=17)["offset"].to_pylist()
    assert later == [10, 11, 16]


def test_a_marker_ends_its_transaction_also_without_the_transactional_bit():
    marker = ending(2, 1, committed=False)
    marker[22] &= ~TRANSACTIONAL_BIT
    stamp_crc(marker)
    blob = bytes(transaction(0, 1, "none") + marker + transaction(3, 1, "none"))
    assert table_of(blob, aborted=[(1, 0)])["offset"].to_pylist() == [3, 4]


def test_the_offset_behind_the_last_record_is_an_offset_too():
    last = len(RECORDS) - 1
    batch = build(RECORDS, base_offset=2**63 - 2 - last)
    assert table_of(batch)["offset"].to_pylist()[-1] == 2**63 - 2
    batch[:8] = (2**63 - 1 - last).to_bytes(8, "big")  # which no CRC covers
    with pytest.raises(BatchError):
        table_of(batch)


def test_log_append_time_is_the_time_of_all():
    batch = build(RECORDS)
    stamp_log_append_time(batch, 0, NOW_MS)
    assert found_rows(table_of(batch, include_headers=True)) == rows_of(read_records(batch))
    assert table_of(batch)["timestampType"].to_pylist() == [1] * 4


@pytest.mark.parametrize("milliseconds", [-(2**63) // 1000 + 1, -1, 0, (2**63 - 1) // 1000])
def test_the_outermost_timestamps_fit(milliseconds):
    batch = build([RECORDS[0]._replace(timestamp_ms=milliseconds)])
    assert table_of(batch)["timestamp"].cast(pa.int64()).to_pylist() == [milliseconds * 1000]


@pytest.mark.parametrize("milliseconds", [2**63 - 1, 2**63 // 1000 + 1, -(2**62), -(2**60)])
@pytest.mark.parametrize("log_append_time", [False, True])
def test_timestamps_that_do_not_fit_are_told(milliseconds, log_append_time):
    batch = build([*RECORDS[:1], RECORDS[0]._replace(timestamp_ms=milliseconds)], base_offset=8)
    if log_append_time:
        stamp_log_append_time(batch, 0, milliseconds)
    with pytest.raises(BatchError, match=f"timestamp of {milliseconds} ms does not fit") as caught:
        table_of(batch)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert caught.value.offset == 8
    # They trouble nobody who does not ask for them.
    assert table_of(batch, columns=["offset"])["offset"].to_pylist() == [8, 9]
    if not log_append_time:
        assert table_of(batch, end_offset=9).num_rows == 1


def test_the_least_of_all_timestamps_is_told():
    batch = build(RECORDS)
    stamp_log_append_time(batch, 0, -(2**63))
    with pytest.raises(BatchError, match="does not fit"):
        table_of(batch)


def test_damage_names_the_batch_and_what_was_given_stands():
    first, second = build(RECORDS, base_offset=0), build(RECORDS, base_offset=4)
    second[-1] ^= 0x40
    batches = decode_columns(bytes(first + second), **PLACE, max_rows=2)
    assert next(batches)["offset"].to_pylist() == [0, 1]
    with pytest.raises(BatchError, match="CRC-32C is") as caught:
        list(batches)
    assert (caught.value.code, caught.value.offset) == (ErrorCode.CORRUPT_MESSAGE, 4)
    assert table_of(bytes(first + second), end_offset=4).num_rows == 4
    flipped = build([Record(0, NOW_MS, 0, None, b"payload", ())])
    flipped[-5] ^= 1
    assert table_of(flipped, check_crc=False)["value"].to_pylist() != [b"payload"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_inflation_has_a_limit(codec):
    batch = build([Record(0, NOW_MS, 0, None, bytes(100_000), ())], codec, base_offset=6)
    assert table_of(batch).num_rows == 1
    with pytest.raises(BatchError, match="beyond the limit") as caught:
        table_of(batch, max_decompressed_bytes=50_000)
    assert (caught.value.code, caught.value.offset) == (ErrorCode.MESSAGE_TOO_LARGE, 6)


def test_an_unknown_codec_is_told():
    batch = wrap(b"rest", 1)
    batch[22] = 6
    with pytest.raises(BatchError) as caught:
        table_of(batch, check_crc=False)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("wrong", ["80", "ff"])
@pytest.mark.parametrize("sound", ["é", "ab"])
def test_header_keys_that_are_not_utf8_are_replaced(sound, wrong):
    key = "04" + sound.encode().hex()
    body = bytes.fromhex("000000" "01" "01" "04" + key + "01" "02" + wrong + "00")  # fmt: skip
    batch = wrap(bytes([2 * len(body)]) + body, 1)
    assert table_of(batch, include_headers=True)["headers"].to_pylist() == [
        [{"key": sound, "value": None}, {"key": "�", "value": b""}]
    ]
    assert next(read_records(batch)).headers == ((sound, None), ("�", b""))


def test_buffers_of_all_kinds_and_positions_are_read():
    blob = many(3, 2, 5)
    expected = table_of(blob, include_headers=True)
    for buf in (bytearray(blob), memoryview(blob), memoryview(b"junk" + blob)[4:]):
        assert table_of(buf, include_headers=True).equals(expected)


def test_rows_outlive_the_blob():
    blob = bytearray(many(3, 2, 5))
    table = table_of(blob, include_headers=True)
    expected = table.to_pylist()
    blob[:] = bytes(len(blob))
    assert table.to_pylist() == expected


def test_no_memory_is_kept():
    blob = many(3, 20, 50, "zstd")
    table_of(blob, include_headers=True)
    before = pa.total_allocated_bytes()
    table_of(blob, include_headers=True)
    assert pa.total_allocated_bytes() == before


def test_headers_have_their_type_even_where_there_are_none():
    table = table_of(build(RECORDS[:1]), include_headers=True)
    assert table["headers"].type == HEADERS_TYPE
    assert table["headers"].null_count == 1


def test_both_backends_are_tried(backend_name):
    assert backend.name() == backend_name
