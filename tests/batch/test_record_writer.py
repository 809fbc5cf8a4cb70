"""The compiled `RecordWriter` and its twin: the same bytes, sizes and refusals, whatever comes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.batch import backend
from fencepost.batch.header import read_header
from fencepost.batch.legacy import build_message_set
from fencepost.batch.partitioner import partition_for_key
from fencepost.batch.record_writer import RecordWriter, new_record_writer
from fencepost.batch.records import read_batch, read_record_lists

from .samples import RECORDS, build, many, timestamps

contents = st.one_of(
    st.none(),
    st.binary(max_size=200),
    st.binary(max_size=20).map(bytearray),
    st.binary(max_size=20).map(lambda data: memoryview(data)[::2]),
    st.sampled_from(["text", 7, [b"a"], b"x" * 9_000]),
)
names = st.text(max_size=12) | st.sampled_from(["\ud800", b"bytes", None])
headers = st.one_of(
    st.just(()),
    st.lists(st.tuples(names, contents), max_size=3),
    st.lists(st.tuples(names, contents), max_size=3).map(tuple),
    st.sampled_from([[("one",)], [("one", b"2", 3)], 5, None, "ab"]),
)
times = timestamps | st.sampled_from([2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**70, "now", None])


def outcome(writer: Any, row: tuple[Any, ...]) -> object:
    """What appending gave or raised, and the state behind it."""
    try:
        said: object = writer.append(*row)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        is_ours = isinstance(error, OverflowError) or "is bytes or None" in str(error)
        said = (type(error), str(error) if is_ours else None)
    state = (writer.count, writer.base_timestamp, writer.max_timestamp, bytes(writer.payload))
    return said, state


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(st.tuples(contents, contents, headers, times), min_size=1, max_size=6))
def test_both_say_the_same_of_anything(backend_name: str, rows: list[Any]):
    if backend_name != "c":
        pytest.skip("there is one only")
    ours, twin = new_record_writer(), RecordWriter()
    assert type(ours) is not RecordWriter
    for row in rows:
        assert outcome(ours, row) == outcome(twin, row)


def test_headers_may_come_from_anything_once():
    def pairs() -> Iterable[tuple[str, bytes]]:
        yield "one", b"1"
        yield "two", b"2"

    writer, again = new_record_writer(), new_record_writer()
    assert writer.append(None, b"v", pairs(), 5) == again.append(None, b"v", list(pairs()), 5)
    assert writer.payload == again.payload


def test_a_batch_has_two_gibibytes_at_most(monkeypatch: pytest.MonkeyPatch, backend_name: str):
    if backend_name == "c":
        pytest.skip("the compiled bound cannot be lowered; the twins share the rule")
    monkeypatch.setattr("fencepost.batch.record_writer.BATCH_BYTES_MAX", 100)
    writer = new_record_writer()
    assert writer.append(None, b"x" * 20, (), 1) < 100
    before = bytes(writer.payload)
    with pytest.raises(OverflowError, match="2 GiB"):
        writer.append(None, b"x" * 20, (), 1)
    assert (writer.count, writer.payload) == (1, before)


class Placed(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Any, ...]


@pytest.mark.parametrize("blob", [many(7, 3, 5), many(8, 2, 9, "lz4")])
def test_records_are_of_the_type_that_is_asked_for(blob: bytes):
    plain = [one for found in read_record_lists(blob) for one in found]
    lists = read_record_lists(blob, row_type=Placed, prefix=("orders", 3))
    placed = [one for found in lists for one in found]
    assert placed == [Placed("orders", 3, *one) for one in plain]
    assert {type(one) for one in placed} == {Placed}
    assert hash(placed[0]) == hash(tuple(placed[0]))


def test_old_messages_are_of_that_type_too():
    blob = build_message_set(RECORDS[:1], magic=1)
    (found,) = read_batch(blob, 0, read_header(blob), row_type=Placed, prefix=("orders", 3))
    assert (type(found), found[:3], found.value) == (Placed, ("orders", 3, 0), b"value")


def test_rows_are_tuples():
    batch = build(RECORDS)
    with pytest.raises((TypeError, AttributeError)):
        read_batch(batch, 0, read_header(batch), row_type=list)


@settings(max_examples=100)
@given(key=st.binary(max_size=40), partitions=st.integers(1, 2**31 - 1))
def test_a_key_has_the_same_partition_on_both(key: bytes, partitions: int):
    chosen, compiled = partition_for_key(key, partitions), backend.kernels
    try:
        backend.kernels = None
        assert partition_for_key(key, partitions) == chosen < partitions
    finally:
        backend.kernels = compiled
