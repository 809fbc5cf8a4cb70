"""Arrow into batches: the same bytes on both backends, and what other readers make of them."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from fencepost.batch.columns import decode_columns, encode_columns
from fencepost.batch.errors import BatchError, RowTooLargeError
from fencepost.batch.header import check_crc, read_header, stamp_producer
from fencepost.batch.produced import ProduceRules, prepare_produced
from fencepost.batch.record_size import size_bound, size_bound_of_first
from fencepost.batch.records import Record, read_records
from fencepost.wire.errors import ErrorCode

from .conftest import COMPILED
from .samples import CODEC_NAMES, NOW_MS, build, byte_strings, header_lists, many, using

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def encode(rows: pa.RecordBatch, partitions: Any = 0, **options: Any) -> list[Any]:
    """Batches that are sound and, where both are there, the same from both backends."""
    options = {"timestamp_ms": NOW_MS} | options
    encoded = encode_columns(rows, partitions, **options)
    for batch in encoded:
        assert isinstance(batch.data, bytearray)
        header = prepare_produced(bytes(batch.data), ProduceRules(1 << 30)).header
        assert header.records_count == batch.records_count
        assert header.max_timestamp == batch.max_timestamp
        assert (header.base_offset, header.partition_leader_epoch) == (0, -1)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    if COMPILED is not None:
        for kernels in (None, COMPILED):
            with using(kernels):
                assert encode_columns(rows, partitions, **options) == encoded
    return encoded


def records_of(encoded: list[Any]) -> list[tuple[Any, ...]]:
    """(partition, timestamp, key, value, headers) of every record, in order."""
    return [
        (batch.partition, record.timestamp_ms, record.key, record.value, record.headers)
        for batch in encoded
        for record in read_records(batch.data)
    ]


@st.composite
def tables(draw: Any) -> list[tuple[Any, ...]]:
    return draw(
        st.lists(
            st.tuples(
                st.none() | st.integers(0, 2**53),
                byte_strings,
                byte_strings,
                st.none() | header_lists,
                st.integers(0, 6),
            ),
            max_size=30,
        )
    )


def record_batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    times, keys, values, headers, _ = zip(*rows, strict=True) if rows else [()] * 5
    return pa.record_batch(
        {
            "timestamp": pa.array(times, pa.timestamp("ms")),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(
                [
                    None if pairs is None else [{"key": k, "value": v} for k, v in pairs]
                    for pairs in headers
                ],
                HEADERS,
            ),
        }
    )


@settings(max_examples=100)
@given(
    tables(), st.sampled_from(CODEC_NAMES), st.sampled_from([900, 1500, 1 << 20]), st.integers(0, 5)
)
def test_every_row_becomes_a_record_of_its_partition(rows, codec, max_batch_bytes, skip):
    partitions = np.array([row[4] for row in rows], np.int64)[skip:]
    options = {"compression": codec, "max_batch_bytes": max_batch_bytes}
    sliced = record_batch(rows).slice(skip)
    encoded = encode(sliced, partitions, **options)
    expected = [
        (partition, NOW_MS if when is None else when, key, value, tuple(headers or ()))
        for when, key, value, headers, partition in rows[skip:]
    ]
    assert records_of(encoded) == sorted(expected, key=lambda row: row[0])


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_what_was_decoded_encodes_again(codec):
    blob = many(11, 4, 50)
    for rows in decode_columns(blob, topic="t", partition=5, include_headers=True):
        encoded = encode(rows, 5, compression=codec)
        assert records_of(encoded) == [
            (5, record.timestamp_ms, record.key, record.value, record.headers)
            for record in read_records(blob)
        ]


def test_one_batch_is_what_the_builder_builds():
    rows = [(NOW_MS + n, b"k%d" % n, b"v" * n, [("h", b"x")] * (n % 3), 0) for n in range(300)]
    (encoded,) = encode(record_batch(rows))
    built = build(
        [Record(n, row[0], 0, row[1], row[2], tuple(row[3])) for n, row in enumerate(rows)]
    )
    assert encoded.data == built


@pytest.mark.parametrize("max_batch_bytes", [90, 200, 1000, 16384])
def test_batches_are_full_but_not_too_large(max_batch_bytes):
    rng = random.Random(5)
    values = [rng.randbytes(rng.randrange(20)) for _ in range(400)]
    rows = pa.record_batch({"value": pa.array(values, pa.binary())})
    encoded = encode(rows, max_batch_bytes=max_batch_bytes)
    sizes = [len(batch.data) for batch in encoded]
    assert max(sizes) <= max_batch_bytes
    assert [record.value for batch in encoded for record in read_records(batch.data)] == values
    position = 0
    for batch, size in zip(encoded[:-1], sizes[:-1]):
        position += batch.records_count
        assert size + len(values[position]) + 7 > max_batch_bytes - 2


def test_a_row_larger_than_a_batch_is_named():
    values = pa.array([b"", b"x" * 1000, b"y" * 3000], pa.binary())
    rows = pa.record_batch({"value": values})
    whole = len(build([Record(0, NOW_MS, 0, None, b"y" * 3000, ())]))
    assert len(encode(rows, max_batch_bytes=whole)) == 2
    with pytest.raises(BatchError, match="row 2 takes 3086 bytes") as caught:
        encode(rows, max_batch_bytes=whole - 1)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(BatchError, match="row 2 takes"):
        encode(rows, pa.array([1, 1, 0]), max_batch_bytes=whole - 1)
    with pytest.raises(BatchError, match="row 2 takes"):
        encode(rows, pa.array([1, 0, 1]), max_batch_bytes=whole - 1)


@pytest.mark.parametrize("order", [0, [0, 1, 0, 1, 0, 1]], ids=["one", "two partitions"])
def test_a_row_larger_than_a_batch_goes_alone_as_far_as_it_may(order):
    """The bound is the one that Kafka's producer holds against max.request.size."""
    values = [b"", b"a" * 50, b"b" * 300, b"c" * 60, b"d" * 200, b"e"]
    rows = pa.record_batch({"value": pa.array(values, pa.binary())})
    partitions = order if isinstance(order, int) else pa.array(order)
    bound = size_bound(None, b"b" * 300, ())
    encoded = encode(rows, partitions, max_batch_bytes=200, max_record_bytes=bound)
    by_batch = [[record.value for record in read_records(one.data)] for one in encoded]
    assert sorted(value for batch in by_batch for value in batch) == sorted(values)
    assert [batch for batch in by_batch if any(len(value) >= 200 for value in batch)] == [
        [values[2]],
        [values[4]],
    ]
    with pytest.raises(RowTooLargeError) as caught:
        encode(rows, partitions, max_batch_bytes=200, max_record_bytes=bound - 1)
    assert (caught.value.row, caught.value.size_bytes) == (2, bound)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@given(byte_strings, byte_strings, header_lists)
def test_the_bound_of_a_written_record_is_that_of_its_parts(key, value, headers):
    rows = [(NOW_MS, key, value, headers, 0)]
    (written,) = encode(record_batch(rows))
    assert size_bound_of_first(len(written.data) - 61) == size_bound(key, value, headers)


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.binary(),
        pa.large_string(),
        pa.large_binary(),
        pa.string_view(),
        pa.binary_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.binary()),
    ],
)
def test_strings_and_bytes_of_all_kinds_are_taken(kind):
    texts = ["é", None, "", "longer than the twelve bytes of a view", "x"]
    raw = [None if text is None else text.encode() for text in texts]
    column = pa.array(texts, pa.string()).cast(pa.binary())
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column
    rows = pa.record_batch({"key": column.cast(kind), "value": column.cast(kind)})
    for start in (0, 2):
        found = records_of(encode(rows.slice(start)))
        assert [row[2] for row in found] == [row[3] for row in found] == raw[start:]


def test_keys_and_headers_may_be_absent_or_null():
    values = pa.array([b"a", b"b"])
    for columns in (
        {},
        {"key": pa.nulls(2)},
        {"key": pa.nulls(2, pa.binary()), "headers": pa.nulls(2)},
        {"headers": pa.nulls(2, HEADERS)},
        {"headers": pa.array([[], None], HEADERS)},
        {"topic": pa.array(["x", "y"]), "partition": pa.array([1, 2])},
    ):
        found = records_of(encode(pa.record_batch({"value": values} | columns)))
        assert found == [(0, NOW_MS, None, b"a", ()), (0, NOW_MS, None, b"b", ())]
    assert records_of(encode(pa.record_batch({"value": pa.nulls(1)}))) == [
        (0, NOW_MS, None, None, ())
    ]


@pytest.mark.parametrize("kind", [pa.large_list(HEADERS.value_type), HEADERS])
def test_headers_of_sliced_lists(kind):
    lists = [[{"key": f"h{n}", "value": b"x" * n}] * n for n in range(6)]
    lists[3] = None
    rows = pa.record_batch({"value": pa.nulls(6), "headers": pa.array(lists, kind)})
    found = [row[4] for row in records_of(encode(rows.slice(2, 3)))]
    assert found == [(("h2", b"xx"),) * 2, (), (("h4", b"xxxx"),) * 4]


def test_headers_whose_values_are_all_null_or_text():
    for kind, value, expected in ((pa.null(), None, None), (pa.string(), "é", "é".encode())):
        pairs = pa.list_(pa.struct([("value", kind), ("key", pa.string())]))
        headers = pa.array([[{"key": "k", "value": value}]], pairs)
        rows = pa.record_batch({"value": pa.nulls(1), "headers": headers})
        assert records_of(encode(rows))[0][4] == (("k", expected),)


@pytest.mark.parametrize(
    ("unit", "values", "milliseconds"),
    [
        ("s", [1, -1, None], [1000, -1000, 7]),
        ("ms", [1, -1, None], [1, -1, 7]),
        ("us", [1999, -1, None], [1, -1, 7]),
        ("ns", [1_999_999, -1, None], [1, -1, 7]),
    ],
)
def test_timestamps_of_all_units_are_rounded_down(unit, values, milliseconds):
    for zone in (None, "UTC", "Europe/Berlin"):
        times = pa.array(values, pa.int64()).cast(pa.timestamp(unit, zone))
        rows = pa.record_batch({"value": pa.nulls(3), "timestamp": times})
        assert [row[1] for row in records_of(encode(rows, timestamp_ms=7))] == milliseconds
        assert [row[1] for row in records_of(encode(rows.slice(1), timestamp_ms=7))] == (
            milliseconds[1:]
        )


def test_timestamps_as_numbers_are_milliseconds():
    rows = pa.record_batch({"value": pa.nulls(2), "timestamp": pa.array([5, None], pa.int64())})
    assert [row[1] for row in records_of(encode(rows, timestamp_ms=9))] == [5, 9]


def test_timestamps_too_far_apart_come_into_batches_of_their_own():
    times = [2**62, -(2**62) - 1, -(2**62), 2**63 - 1, -(2**63)]
    rows = pa.record_batch({"value": pa.nulls(5), "timestamp": pa.array(times, pa.int64())})
    encoded = encode(rows)
    assert [batch.records_count for batch in encoded] == [1, 2, 1, 1]
    assert [row[1] for row in records_of(encoded)] == times


@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        ({"key": pa.array([b"x"])}, ValueError, "no column 'value'"),
        ({"value": pa.array([1])}, TypeError, "'value' is int64"),
        ({"value": pa.array([b"x"]), "key": pa.array([1.0])}, TypeError, "'key' is double"),
        ({"value": pa.nulls(1), "timestamp": pa.array(["x"])}, TypeError, "'timestamp' is string"),
        (
            {"value": pa.nulls(1), "timestamp": pa.array([2**60], pa.timestamp("s"))},
            ValueError,
            "'timestamp' does not fit",
        ),
        ({"value": pa.nulls(1), "headers": pa.array(["x"])}, TypeError, "'headers' is string"),
        ({"value": pa.nulls(1), "headers": pa.array([["x"]])}, TypeError, "'headers' is list"),
        (
            {"value": pa.nulls(1), "headers": pa.array([[{"key": None, "value": b""}]], HEADERS)},
            ValueError,
            "no key",
        ),
        (
            {"value": pa.nulls(1), "headers": pa.array([[None]], HEADERS)},
            ValueError,
            "a header that is null",
        ),
        (
            {
                "value": pa.nulls(1),
                "headers": pa.array(
                    [[{"key": 1, "value": b""}]],
                    pa.list_(pa.struct([("key", pa.int32()), ("value", pa.binary())])),
                ),
            },
            TypeError,
            "'headers.key' is int32",
        ),
    ],
)
def test_columns_that_cannot_be_records_are_named(columns, error, says):
    with pytest.raises(error, match=says):
        encode(pa.record_batch(columns))


@pytest.mark.parametrize(
    ("partitions", "says"),
    [
        (-1, "no partition -1"),
        (2**31, "no partition"),
        (np.array([0, -1]), "no partition -1"),
        (np.array([0, 2**31]), "no partition 2147483648"),
        (pa.array([0, None]), "1 rows have no partition"),
        (np.array([0]), "1 partitions for 2 rows"),
        (np.array([0, 1, 2]), "3 partitions for 2 rows"),
    ],
)
def test_partitions_that_are_none_are_refused(partitions, says):
    with pytest.raises(ValueError, match=says):
        encode(pa.record_batch({"value": pa.nulls(2)}), partitions)


@pytest.mark.parametrize("most", [1, 300, 70_000, 2**31 - 1])
def test_rows_keep_their_order_within_a_partition(most):
    rng = random.Random(most)
    partitions = [rng.choice([0, most // 2, most]) for _ in range(500)]
    rows = pa.record_batch({"value": pa.array([b"%d" % n for n in range(500)])})
    found = [(row[0], int(row[3])) for row in records_of(encode(rows, pa.array(partitions)))]
    assert found == sorted((partition, n) for n, partition in enumerate(partitions))


def test_no_rows_are_no_batches():
    rows = pa.record_batch({"value": pa.array([], pa.binary())})
    assert encode(rows) == encode(rows, np.array([], np.int32)) == []


@pytest.mark.parametrize("options", [{"max_batch_bytes": 61}, {"compression": "lzma"}])
def test_options_that_cannot_be(options):
    with pytest.raises((ValueError, BatchError)):
        encode(pa.record_batch({"value": pa.nulls(1)}), **options)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_producer_numbers_batches_when_it_sends_them(codec):
    (encoded,) = encode(pa.record_batch({"value": pa.array([b"a", b"b"])}), compression=codec)
    stamp_producer(encoded.data, 7, 1, 100, transactional=True)
    header = read_header(encoded.data)
    assert check_crc(encoded.data, 0, header)
    assert (header.producer_id, header.base_sequence, header.last_sequence) == (7, 100, 101)
    prepare_produced(encoded.data, ProduceRules(1 << 20))
