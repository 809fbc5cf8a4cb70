"""The header: what it refuses, how batches follow each other, and what stamping touches."""

from __future__ import annotations

import pytest

from fencepost.batch.errors import BatchError
from fencepost.batch.header import (
    HEADER_BYTES,
    check_crc,
    iter_headers,
    measure,
    read_header,
    require_crc,
    stamp,
    stamp_crc,
    stamp_log_append_time,
    stamp_producer,
    unpack_header,
)
from fencepost.batch.records import read_records
from fencepost.wire.errors import ErrorCode

from .samples import RECORDS, build


def refused(buf: bytes | bytearray, pos: int = 0) -> BatchError:
    with pytest.raises(BatchError) as caught:
        read_header(buf, pos)
    return caught.value


def test_a_short_header_is_refused():
    whole = bytes(build(RECORDS))
    for size in range(HEADER_BYTES):
        assert refused(whole[:size]).code is ErrorCode.CORRUPT_MESSAGE, size


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [17, 30, 200])
def test_older_formats_are_named_where_only_batches_will_do(magic, size):
    batch = build(RECORDS)[:size]
    batch[16] = magic
    with pytest.raises(BatchError, match=f"v{magic}") as caught:
        unpack_header(batch)
    assert caught.value.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [
        (16, b"\x03", "magic is 3"),
        (16, b"\xff", "magic is -1"),
        (8, b"\x00\x00\x00\x30", "batch length 48"),
        (8, b"\xff\xff\xff\xff", "batch length -1"),
        (8, b"\x80\x00\x00\x00", "batch length -2147483648"),
        (23, b"\xff\xff\xff\xff", "last offset delta is -1"),
        (57, b"\xff\xff\xff\xff", "records count is -1"),
        (0, b"\xff" * 8, "offsets from -1"),
        (0, b"\x7f" + b"\xff" * 7, "offsets from"),
    ],
)
def test_values_that_no_batch_has_are_refused(at, value, says):
    batch = build(RECORDS)
    batch[at : at + len(value)] = value
    error = refused(batch)
    assert error.code is ErrorCode.CORRUPT_MESSAGE
    assert says in str(error)


def test_the_least_length_is_a_header_alone():
    batch = build(RECORDS)[:HEADER_BYTES]
    batch[8:12] = (49).to_bytes(4, "big")
    assert read_header(batch).size_bytes == HEADER_BYTES


def test_whole_batches_are_found_and_a_cut_one_is_not():
    first, second = build(RECORDS, base_offset=10), build(RECORDS[:1], base_offset=20)
    blob = bytes(first + second)
    for size in range(len(blob) + 1):
        found = [(pos, header.base_offset) for pos, header in iter_headers(blob[:size])]
        whole = (size >= len(first)) + (size >= len(blob))
        assert found == [(0, 10), (len(first), 20)][:whole]
        assert [header.base_offset for _, header in iter_headers(blob, 0, size)] == [10, 20][:whole]
    assert [pos for pos, _ in iter_headers(blob, len(first))] == [len(first)]


def test_measuring_tells_where_to_go_on():
    blob = bytes(build(RECORDS, base_offset=10) + build(RECORDS[:1], base_offset=20))
    assert measure(blob) == (len(blob), 21, 2)
    assert measure(blob[:-1]) == (len(build(RECORDS)), 14, 1)
    assert measure(blob[:50]) == (0, None, 0)
    assert measure(b"") == (0, None, 0)


def test_stamping_a_place_keeps_the_crc():
    blob = bytearray(b"xyz" + build(RECORDS))
    stamp(blob, 3, base_offset=2**40, leader_epoch=9)
    header = read_header(blob, 3)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 9)
    assert check_crc(blob, 3, header)
    stamp(memoryview(blob), 3, base_offset=1, leader_epoch=-1)
    assert read_header(blob, 3).base_offset == 1


def test_log_append_time_is_every_records_time():
    blob = bytearray(b"xyz" + build(RECORDS))
    stamp_log_append_time(blob, 3, 777)
    header = read_header(blob, 3)
    assert header.is_log_append_time and header.max_timestamp == 777
    records = list(read_records(memoryview(blob)[3:]))
    assert [(each.timestamp_ms, each.timestamp_type) for each in records] == [(777, 1)] * 4


def test_a_producer_stamp_keeps_the_batch_sound():
    batch = build(RECORDS)
    stamp_producer(batch, 5, 6, 7)
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 6, 7)
    assert check_crc(batch, 0, header) and not header.is_transactional
    assert header.last_sequence == 10
    stamp_producer(batch, 5, 6, 2**31 - 2, transactional=True)
    header = read_header(batch)
    assert check_crc(batch, 0, header) and header.is_transactional
    assert header.last_sequence == 1  # 2147483646, 2147483647, 0, 1
    assert batch == build(
        RECORDS, producer_id=5, producer_epoch=6, base_sequence=2**31 - 2, transactional=True
    )


def test_a_crc_over_a_cut_batch_never_holds():
    batch = build(RECORDS)
    header = read_header(batch)
    assert not check_crc(batch[:-1], 0, header)
    with pytest.raises(BatchError, match="cut"):
        require_crc(batch[:-1], 0, header)
    with pytest.raises(ValueError, match="cut"):
        stamp_crc(batch[:-1])


def test_every_flipped_bit_behind_the_crc_is_noticed():
    batch = build(RECORDS)
    header = read_header(batch)
    for bit in range(17 * 8, len(batch) * 8):
        batch[bit >> 3] ^= 1 << (bit & 7)
        assert not check_crc(batch, 0, header._replace(crc=int.from_bytes(batch[17:21], "big")))
        batch[bit >> 3] ^= 1 << (bit & 7)
    assert check_crc(batch, 0, header)
