"""Which partition a key belongs to: Kafka's own test vectors, and columns as single keys."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.partitioner import murmur2 as murmur2_of_aiokafka
from hypothesis import given, strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from fencepost.batch.columns import partition_columns
from fencepost.batch.partitioner import murmur2, partition_for_key


# From the tests of Kafka's Java client (Utils.murmur2).
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_are_those_of_the_java_client(key, value):
    assert murmur2(key) == value
    assert murmur2(bytearray(key)) == murmur2(memoryview(key)) == value
    assert partition_for_key(key, 7) == (value & 0x7FFFFFFF) % 7


@given(st.binary(max_size=60))
def test_hashes_are_those_of_other_clients(key):
    assert murmur2(key) & 0xFFFFFFFF == murmur2_of_kafka_python(key) & 0xFFFFFFFF
    assert murmur2(key) & 0xFFFFFFFF == murmur2_of_aiokafka(key) & 0xFFFFFFFF


@given(st.lists(st.none() | st.binary(max_size=40), max_size=40), st.integers(1, 100))
def test_a_column_is_partitioned_as_its_keys_are(keys, partitions):
    expected = [None if key is None else partition_for_key(key, partitions) for key in keys]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        array = pa.array(keys, kind)
        assert partition_columns(array, partitions).to_pylist() == expected
        assert partition_columns(array[1:], partitions).to_pylist() == expected[1:]
    assert partition_columns(pa.array(keys, pa.binary()), partitions).type == pa.int32()


def test_strings_and_long_keys():
    rng = random.Random(2)
    keys = ["é" * rng.randrange(300) for _ in range(50)] + ["x" * 10_000, "", None]
    expected = [None if key is None else partition_for_key(key.encode(), 12) for key in keys]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert partition_columns(pa.array(keys, kind), 12).to_pylist() == expected
    encoded = pa.array(keys, pa.string()).dictionary_encode()
    assert partition_columns(encoded, 12).to_pylist() == expected
    assert partition_columns(pa.nulls(3), 12).to_pylist() == [None] * 3


def test_what_has_no_partition():
    for call in (lambda: partition_for_key(b"", 0), lambda: partition_columns(pa.array([b""]), 0)):
        with pytest.raises(ValueError, match="at least one partition, not 0"):
            call()
    with pytest.raises(TypeError, match="'key' is int64"):
        partition_columns(pa.array([1]), 3)


def test_keys_spread():
    keys = pa.array([f"key-{number}" for number in range(10_000)])
    counts = np.bincount(partition_columns(keys, 10).to_numpy())
    assert len(counts) == 10 and counts.min() > 900
