"""Batches by an adversary who can compute a CRC: every cut, every length a lie, and pure garbage.

Nothing but BatchError may come out, whichever way the bytes are read, and the compiled kernels must
see exactly what the Python parser sees.
"""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from fencepost.batch.columns import SCHEMA, decode_columns
from fencepost.batch.compression import compress
from fencepost.batch.errors import BatchError
from fencepost.batch.header import HEADER_BYTES, read_header, stamp_crc
from fencepost.batch.produced import ProduceRules, prepare_produced
from fencepost.batch.record_writer import append_varint
from fencepost.batch.records import read_records
from fencepost.batch.walk import read_headers, read_record

from .conftest import COMPILED
from .samples import RECORDS, build, record_lists, using, wrap

PAYLOAD = bytes(build(RECORDS)[HEADER_BYTES:])


def validate(batch: bytes) -> object:
    return prepare_produced(batch, ProduceRules(1 << 20), max_decompressed_bytes=1 << 20)


def read(batch: bytes) -> object:
    return list(read_records(batch, include_control=True, max_decompressed_bytes=1 << 20))


def decode(batch: bytes) -> object:
    batches = decode_columns(
        batch, topic="t", partition=0, include_headers=True, max_decompressed_bytes=1 << 20
    )
    table = pa.Table.from_batches(batches, schema=SCHEMA)
    # As numbers, because Python's datetime ends with the year 9999.
    numbers = table.column("timestamp").cast(pa.int64())
    return table.set_column(5, "timestamp", numbers).to_pylist()


READERS = [validate, read, decode]


def outcome(reader: Callable[[bytes], object], batch: bytes) -> object:
    """What a reader gives or says; anything but BatchError is a failure."""
    try:
        return reader(batch)
    except BatchError as error:
        return type(error), error.code, error.message, error.offset


def is_refused(reader: Callable[[bytes], object], batch: bytes) -> bool:
    found = outcome(reader, batch)
    return isinstance(found, tuple) and isinstance(found[0], type)


def lengths(payload: bytes) -> Iterator[tuple[str, int, int, int]]:
    """(what, where, bytes it takes, value) of every length and count in a sound payload."""
    pos = 0
    while pos < len(payload):
        record = read_record(payload, pos, len(payload))
        body = record.end - (pos + 1)
        size = 1 if body < 64 else 2
        yield "record", pos, size, record.end - pos - size
        yield from _part("key", record.key_at, record.key_length)
        yield from _part("value", record.value_at, record.value_length)
        headers = read_headers(payload, record.headers_at, record.end)
        yield "count", record.headers_at, 1, len(headers)
        for key_at, key_length, value_at, value_length in headers:
            yield from _part("header key", key_at, key_length)
            yield from _part("header value", value_at, value_length)
        pos = record.end


def _part(what: str, at: int, length: int) -> Iterator[tuple[str, int, int, int]]:
    size = 1 if -64 <= length < 64 else 2
    yield what, at - size, size, length


NULLABLE = {"key", "value", "header value"}
LIES: list[Callable[[int], int]] = [
    lambda value: value + 1,
    lambda value: value - 1,
    lambda value: -value - 2,
    lambda value: -2,
    lambda value: 2**31 - 1,
    lambda value: -(2**31),
    lambda value: value + 1000,
    lambda value: value + 2**20,
]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("lie", LIES)
def test_every_length_that_lies_is_refused(reader, lie):
    places = list(lengths(PAYLOAD))
    assert {what for what, *_ in places} == {
        "record", "key", "value", "count", "header key", "header value"
    }  # fmt: skip
    for what, at, size, value in places:
        number = bytearray()
        append_varint(number, lie(value))
        batch = wrap(PAYLOAD[:at] + number + PAYLOAD[at + size :], len(RECORDS))
        null_for_empty = {value, lie(value)} == {-1, 0} and what in NULLABLE
        if lie(value) != value and not null_for_empty:
            assert is_refused(reader, bytes(batch)), (what, at, value, lie(value))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "number",
    [
        b"\xff\xff\xff\xff\x10",  # 33 bits
        b"\xff\xff\xff\xff\xff\x01",  # six bytes
        b"\x80" * 20,
        b"\xff" * 9 + b"\x02",  # 65 bits
        b"\x80" * 10 + b"\x00",  # eleven bytes
    ],
)
def test_numbers_that_are_too_long_are_refused(reader, number):
    for _, at, size, _ in lengths(PAYLOAD):
        batch = wrap(PAYLOAD[:at] + number + PAYLOAD[at + size :], len(RECORDS))
        assert is_refused(reader, bytes(batch))


def test_a_timestamp_delta_has_ten_bytes_at_most():
    body = b"\x00" + b"\xff" * 9 + b"\x01" + b"\x00\x01\x01\x00"
    batch = wrap(bytes([2 * len(body)]) + body, 1)
    batch[27:35] = (2**62).to_bytes(8, "big")
    batch[35:43] = (2**63 - 1).to_bytes(8, "big")
    stamp_crc(batch)
    (record,) = read_records(batch)
    assert record.timestamp_ms == 2**62 - 2**63
    body = b"\x00" + b"\xff" * 9 + b"\x03" + b"\x00\x01\x01\x00"
    assert is_refused(read, bytes(wrap(bytes([2 * len(body)]) + body, 1)))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd", "snappy"])
def test_records_cut_anywhere_are_refused(reader, codec):
    for size in range(len(PAYLOAD)):
        batch = wrap(compress(codec, PAYLOAD[:size]), len(RECORDS))
        batch[22] = ["none", "gzip", "snappy", "lz4", "zstd"].index(codec)
        stamp_crc(batch)
        assert is_refused(reader, bytes(batch))


@pytest.mark.parametrize("reader", READERS)
def test_a_batch_cut_anywhere_gives_nothing(reader):
    batch = bytes(build(RECORDS))
    for size in range(len(batch)):
        found = outcome(reader, batch[:size])
        assert found == [] if reader is not validate else isinstance(found, tuple)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("at", "size", "values"),
    [
        (8, 4, [-1, 0, 48, 49, 2**31 - 1, -(2**31)]),
        (23, 4, [-1, 0, 2, 2**31 - 1, -(2**31)]),
        (57, 4, [-1, 0, 3, 5, 2**31 - 1, -(2**31)]),
    ],
)
def test_every_number_of_the_header_may_lie(reader, at, size, values):
    """Refused, or (a batch that only seems cut, an empty one) without any record.

    A greater last offset is no lie to a reader: compaction may have taken the last records.
    """
    for value in values:
        if at == 23 and value > 3 and reader is not validate:
            continue
        batch = build(RECORDS)
        batch[at : at + size] = value.to_bytes(size, "big", signed=True)
        if at != 8:
            stamp_crc(batch)
        assert is_refused(reader, bytes(batch)) or outcome(reader, bytes(batch)) == []


def mutated(rng: random.Random, payload: bytes) -> bytes:
    """A few bytes changed, cut out or put in."""
    work = bytearray(payload)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(work) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(work):
            work[at] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif kind == 1:
            del work[at : at + rng.randrange(1, 5)]
        elif kind == 2:
            work[at:at] = rng.randbytes(rng.randrange(1, 5))
        elif at < len(work):
            work[at] ^= 1 << rng.randrange(8)
    return bytes(work)


def assert_backends_agree(batch: bytes) -> None:
    for reader in READERS:
        with using(COMPILED):
            compiled = outcome(reader, batch)
        with using(None):
            pure = outcome(reader, batch)
        assert compiled == pure


needs_both = pytest.mark.skipif(COMPILED is None, reason="the kernels are not built")


@needs_both
def test_backends_agree_on_mutations(backend_name):
    rng = random.Random(backend_name)
    for _ in range(3000):
        batch = wrap(mutated(rng, PAYLOAD), rng.choice([4, 4, 4, 3, 5]))
        if rng.random() < 0.2:
            batch[22] |= 0x08
            stamp_crc(batch)
        assert_backends_agree(bytes(batch))


@needs_both
@settings(max_examples=200)
@given(payload=st.binary(max_size=80), count=st.integers(0, 6))
def test_backends_agree_on_garbage(payload, count):
    assert_backends_agree(bytes(wrap(payload, count)))


@needs_both
@settings(max_examples=100)
@given(records=record_lists(), base=st.integers(-(2**63), 2**63 - 1), shift=st.integers(0, 3))
def test_backends_agree_on_any_base_timestamp(records, base, shift):
    batch = build(records)
    batch[27:35] = base.to_bytes(8, "big", signed=True)
    stamp_crc(batch)
    assert_backends_agree(bytes(batch))


@needs_both
def test_backends_agree_on_damaged_blobs():
    """Several batches of which any may be damaged: the first damage is the one that is told."""
    rng = random.Random(17)
    for _ in range(300):
        blob = bytearray()
        for index in range(4):
            batch = wrap(mutated(rng, PAYLOAD) if rng.random() < 0.15 else PAYLOAD, 4)
            batch[0:8] = (10 * index).to_bytes(8, "big")
            if rng.random() < 0.1:
                batch[rng.randrange(len(batch))] ^= 0x10
            blob += batch
        for reader in (read, decode):
            with using(COMPILED):
                compiled = outcome(reader, bytes(blob))
            with using(None):
                assert outcome(reader, bytes(blob)) == compiled


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
def test_a_bomb_in_a_batch_costs_no_more_than_the_limit(reader, codec):
    batch = build(RECORDS[:1], codec)
    header = read_header(batch)
    bomb = wrap(compress(codec, bytes(1 << 24)), 1, like=batch)
    assert read_header(bomb).compression == header.compression
    outcome(reader, bytes(bomb))  # whatever is imported or made once is there now
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        found: Any = outcome(reader, bytes(bomb))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found[1].name == "MESSAGE_TOO_LARGE"
    assert peak < 6 << 20
    assert pa.total_allocated_bytes() - before < 1 << 20


@pytest.mark.parametrize("reader", READERS)
def test_a_count_of_two_billion_costs_nothing(reader):
    batch = wrap(PAYLOAD, 2**31 - 1)
    assert is_refused(reader, bytes(batch))  # whatever is imported or made once is there now
    tracemalloc.start()
    try:
        assert is_refused(reader, bytes(batch))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
