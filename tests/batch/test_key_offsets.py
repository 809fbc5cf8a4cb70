"""Compaction's work per record: what is noted of keys, and what stays of a batch."""

from __future__ import annotations

import random
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencepost.batch import backend
from fencepost.batch.errors import BatchError
from fencepost.batch.header import HEADER_BYTES, LOG_APPEND_TIME_BIT, BatchHeader, read_header
from fencepost.batch.key_offsets import (
    PLAIN_KEY_BYTES_MAX,
    KeyOffsets,
    new_key_offsets,
    note_records,
    pick_records,
    rebase_records,
    rebase_records_python,
    stored_key,
)
from fencepost.batch.records import Record, assemble, read_batch
from fencepost.batch.walk import INT64_MAX, INT64_MIN
from fencepost.wire.errors import ErrorCode

from .samples import NOW_MS, RECORDS, build, record_lists, wrap

PLENTY = 1 << 40


def batch_of(records: list[Record], base_offset: int = 0) -> tuple[bytes, BatchHeader]:
    """Payload and header."""
    batch = build(records, base_offset=base_offset)
    return bytes(batch[HEADER_BYTES:]), read_header(batch)


def keyed(*keys: bytes | None, value: bytes | None = b"v") -> list[Record]:
    return [Record(at, NOW_MS + at, 0, key, value, ()) for at, key in enumerate(keys)]


def note(offsets: Any, payload: bytes, header: BatchHeader, **rules: Any) -> tuple[int, bool]:
    rules = {
        "start_offset": 0,
        "entry_bytes": 10,
        "left_bytes": PLENTY,
        "is_bounded": True,
        **rules,
    }
    return note_records(offsets, payload, header, **rules)


def survivors(
    offsets: Any,
    payload: bytes,
    header: BatchHeader,
    latest_offset: int = INT64_MAX,
    drops_tombstones: bool = False,
) -> list[Record]:
    """The records that stay, read from a batch made of what was picked."""
    found, left = pick_records(
        offsets,
        payload,
        header,
        latest_offset=latest_offset,
        drops_tombstones=drops_tombstones,
    )
    batch = assemble(header._replace(records_count=found.kept), left)
    records = read_batch(batch, 0, read_header(batch))
    assert found.tombstones == sum(one.value is None for one in records)
    if records and not header.is_log_append_time:
        assert found.max_timestamp == max(one.timestamp_ms for one in records)
    if found.kept == header.records_count:
        assert left is payload
    return records


# ---- noting


def test_the_last_offset_of_a_key_is_noted():
    offsets = new_key_offsets()
    payload, header = batch_of(keyed(b"a", b"b", b"a", None, b""), base_offset=100)
    assert note(offsets, payload, header) == (PLENTY - 3 * 10 - 2, True)
    assert len(offsets) == 3
    assert [offsets.get(key) for key in (b"a", b"b", b"", b"c")] == [102, 101, 104, -1]
    payload, header = batch_of(keyed(b"a", b"b", b"c"), base_offset=200)
    note(offsets, payload, header, start_offset=202)
    assert [offsets.get(key) for key in (b"a", b"b", b"", b"c")] == [102, 101, 104, 202]
    offsets.put(b"c", 300)
    offsets.put(b"d", 301)
    assert [offsets.get(key) for key in (b"c", b"d")] == [300, 301]
    offsets.clear()
    assert (len(offsets), offsets.get(b"a")) == (0, -1)
    note(offsets, payload, header)
    assert offsets.get(b"a") == 200


def test_noting_ends_at_the_first_key_without_room():
    offsets = new_key_offsets()
    payload, header = batch_of(keyed(b"a", b"bb", b"a", b"cc", b"b", b"a"))
    assert note(offsets, payload, header, left_bytes=24) == (1, False)
    assert [offsets.get(key) for key in (b"a", b"bb", b"cc", b"b")] == [2, 1, -1, -1]
    assert note(offsets, payload, header, left_bytes=1, is_bounded=False) == (1 - 12 - 11, True)
    assert [offsets.get(key) for key in (b"a", b"bb", b"cc", b"b")] == [5, 1, 3, 4]
    long, header = batch_of(keyed(b"k" * 33))
    assert note(offsets, long, header, left_bytes=43) == (0, True)
    offsets.clear()
    assert note(offsets, long, header, left_bytes=42) == (42, False)


def test_records_behind_a_full_table_are_checked_all_the_same():
    offsets = new_key_offsets()
    payload, header = batch_of(keyed(b"a", b"b", b"c"))
    with pytest.raises(BatchError, match=r"record 2 .*its value's length"):
        note(offsets, payload[:-3] + b"\x06" + payload[-2:], header, left_bytes=11)


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 34, 127, 128, 129, 255, 256, 257, 5000])
def test_long_keys_are_represented_by_a_digest(backend_name: str, length: int):
    stored = stored_key if backend_name == "python" else backend.kernels.stored_key
    key = bytes(at * 7 % 251 for at in range(length))
    expected = key
    if length > PLAIN_KEY_BYTES_MAX:
        expected = blake2b(key, digest_size=33).digest()
    assert stored(key) == expected
    offsets = new_key_offsets()
    for other in (key, key + b"\0", key[:-1] + b"\xff"):
        offsets.put(other, len(other))
        assert offsets.get(other) == len(other)
    assert offsets.get(key) == length
    if expected != key:
        assert offsets.get(expected) == -1, "a digest is not a key"


def test_very_many_keys_are_told_apart():
    offsets = new_key_offsets()
    keys = [b"%d" % at for at in range(1000)] + [
        b"%0*d" % (at % 60, at) for at in range(1000, 9000)
    ]
    for begin in range(0, len(keys), 500):
        payload, header = batch_of(keyed(*keys[begin : begin + 500]), base_offset=begin)
        note(offsets, payload, header)
    assert len(offsets) == len(set(keys)) == len(keys)
    assert [offsets.get(key) for key in keys] == list(range(len(keys)))


# ---- picking


def test_the_last_record_of_each_key_stays():
    offsets = new_key_offsets()
    payload, header = batch_of(keyed(b"a", b"b", b"a", b"c"), base_offset=5)
    note(offsets, payload, header)
    offsets.put(b"c", 99)
    left = survivors(offsets, payload, header)
    assert [(one.offset, one.key) for one in left] == [(6, b"b"), (7, b"a")]
    left = survivors(offsets, payload, header, latest_offset=5)
    assert [one.offset for one in left] == [6, 7, 8]
    assert len(survivors(offsets, payload, header, latest_offset=4)) == 4


def test_tombstones_go_when_they_are_to_go():
    offsets = new_key_offsets()
    records = [*keyed(b"a", b"b"), *keyed(b"a", b"c", value=None)]
    payload, header = batch_of(records)
    note(offsets, payload, header)
    assert [one.offset for one in survivors(offsets, payload, header)] == [1, 2, 3]
    left = survivors(offsets, payload, header, drops_tombstones=True)
    assert [one.offset for one in left] == [1]
    left = survivors(offsets, payload, header, drops_tombstones=True, latest_offset=2)
    assert [one.offset for one in left] == [1, 3]


def test_records_without_a_key_go_and_are_counted():
    offsets = new_key_offsets()
    payload, header = batch_of(keyed(None, b"a", None, None))
    found, left = pick_records(offsets, payload, header, latest_offset=2, drops_tombstones=False)
    assert (found.kept, found.without_key) == (2, 2)
    assert len(left) < len(payload)
    found, left = pick_records(
        new_key_offsets(), *batch_of(keyed(None)), latest_offset=2, drops_tombstones=True
    )
    assert (found.kept, found.without_key, len(left)) == (0, 1, 0)


def test_a_batch_without_records_is_a_batch():
    payload, header = b"", batch_of(keyed(b"a"))[1]._replace(records_count=0)
    offsets = new_key_offsets()
    assert note(offsets, payload, header) == (PLENTY, True)
    assert survivors(offsets, payload, header) == []


@given(record_lists(max_size=30), st.integers(-1, 30), st.booleans(), st.data())
def test_both_backends_pick_the_same(
    records: list[Record], latest: int, drops: bool, data: st.DataObject
):
    keys = st.sampled_from([b"a", b"b", b"k" * 40, None])
    records = [one._replace(key=data.draw(keys)) for one in records]
    payload, header = batch_of(records)
    offsets, twin = new_key_offsets(), KeyOffsets()
    rules = (
        data.draw(st.integers(0, 9)),
        10,
        data.draw(st.booleans()),
        data.draw(st.integers(0, 60)),
    )
    assert offsets.note(payload, header, *rules) == twin.note(payload, header, *rules)
    assert len(offsets) == len(twin)
    found = offsets.pick(payload, header, latest, drops)
    assert found == twin.pick(payload, header, latest, drops)
    last = {one.key: one.offset for one in records}
    if rules[0] == 0 and offsets.note(payload, header, 0, 1, False, 0)[2]:
        kept = survivors(offsets, payload, header, latest, drops)
        assert [one.offset for one in kept] == [
            one.offset
            for one in records
            if one.offset > latest
            or (one.key is not None and last[one.key] == one.offset
                and not (drops and one.value is None))
        ]  # fmt: skip


# ---- timestamps relative to another base


@given(record_lists(), st.integers(0, INT64_MAX))
def test_timestamps_stay_what_they_are(records: list[Record], base: int):
    payload, header = batch_of(records)
    rebased = rebase_records(payload, header, base)
    assert rebased == rebase_records_python(payload, header, base)
    if rebased is None:
        assert min(one.timestamp_ms for one in records) - base < INT64_MIN
        return
    batch = assemble(header._replace(base_timestamp=base), rebased)
    assert read_batch(batch, 0, read_header(batch)) == records


def test_a_delta_beyond_64_bits_is_none():
    for timestamp, base, fits in [
        (-1, INT64_MAX, True),
        (-2, INT64_MAX, False),
        (INT64_MIN, 0, True),
        (INT64_MIN, 1, False),
        (INT64_MAX, 0, True),
    ]:
        payload, header = batch_of([Record(0, timestamp, 0, b"k", None, ())])
        rebased = rebase_records(payload, header, base)
        assert (rebased is not None) is fits
        if rebased is not None:
            batch = assemble(header._replace(base_timestamp=base), rebased)
            assert read_batch(batch, 0, read_header(batch))[0].timestamp_ms == timestamp


def test_records_with_the_headers_timestamp_keep_their_deltas():
    payload, header = batch_of(RECORDS)
    header = header._replace(attributes=header.attributes | LOG_APPEND_TIME_BIT)
    assert rebase_records(payload, header, 12345) == payload
    with pytest.raises(ValueError, match="-1 ms"):
        rebase_records(payload, header, -1)


def test_what_a_record_has_besides_is_copied():
    """Also an attribute that means nothing yet; a number of too many bytes is written anew."""
    payload, header = batch_of(keyed(b"k"))
    assert payload[0] == (len(payload) - 1) << 1
    odd = bytes([len(payload) << 1, 0x55, 0x80, 0x00]) + payload[3:]
    rebased = rebase_records(odd, header, header.base_timestamp)
    assert rebased == rebase_records_python(odd, header, header.base_timestamp)
    assert rebased == payload[:1] + b"\x55" + payload[2:]


# ---- hostile input


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_cut_payload_is_an_error(cut: int):
    payload, header = batch_of(RECORDS, base_offset=7)
    for act in (
        lambda: note(new_key_offsets(), payload[:-cut], header),
        lambda: survivors(new_key_offsets(), payload[:-cut], header),
    ):
        with pytest.raises(BatchError, match="record 3") as caught:
            act()
        assert (caught.value.code, caught.value.offset) == (ErrorCode.CORRUPT_MESSAGE, 7)


@pytest.mark.parametrize("count", [0, 3, 5, 2**31 - 1])
def test_a_wrong_count_is_an_error(count: int):
    payload, header = batch_of(RECORDS)
    header = header._replace(records_count=count, last_offset_delta=2**31 - 1)
    with pytest.raises(BatchError):
        note(new_key_offsets(), payload, header)
    with pytest.raises(BatchError):
        survivors(new_key_offsets(), payload, header)


def test_garbage_is_refused_alike_by_both_backends():
    rng = random.Random(3)
    sound = 0
    for _ in range(3000):
        payload = bytearray(build(RECORDS)[HEADER_BYTES:])
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(payload) + 1)
            payload[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
        header = read_header(wrap(bytes(payload), rng.choice([3, 4, 4, 4, 5])))
        header = header._replace(last_offset_delta=rng.choice([3, 3, 100]))
        offsets, twin = new_key_offsets(), KeyOffsets()
        noted = offsets.note(payload, header, 0, 1, False, 0)
        expected = twin.note(payload, header, 0, 1, False, 0)
        assert noted[0] == expected[0]
        if noted[0] is not None:
            offsets, twin = new_key_offsets(), KeyOffsets()
        else:
            assert noted == expected
            sound += 1
        assert offsets.pick(payload, header, 2, True) == twin.pick(payload, header, 2, True)
    assert 100 < sound < 2900


@pytest.mark.parametrize("payload", [b"\x80" * 12, b"\x01\x00", b"\x7e\x00", b"\x02"])
def test_what_is_no_record_has_no_other_base(backend_name: str, payload: bytes):
    if backend_name != "c":
        pytest.skip("the twin reads nothing out of bounds")
    assert backend.kernels.rebase_records(payload, batch_of(RECORDS)[1], 0) is None
