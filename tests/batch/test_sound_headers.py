"""Headers of many batches at once: those that one by one are whole and sound, and no other."""

from __future__ import annotations

import random

import pytest

from fencepost.batch import backend
from fencepost.batch.errors import BatchError
from fencepost.batch.header import BatchHeader, check_crc, read_header, sound_headers, stamp_crc
from fencepost.batch.legacy import build_message_set

from .samples import RECORDS, build

BATCHES = [
    bytes(
        build(
            RECORDS[:count],
            base_offset=2**62 + count,
            leader_epoch=-5 + count,
            producer_id=2**40 * count - 1,
            producer_epoch=count,
            base_sequence=2**31 - 9,
            transactional=count == 2,
        )
    )
    for count in (1, 2, 3)
]
BLOB = b"".join(BATCHES)


def one_by_one(blob: bytes, pos: int = 0) -> list[BatchHeader]:
    """The same, as it is told of a batch alone."""
    found = []
    try:
        while (header := read_header(blob, pos)).magic == 2 and check_crc(blob, pos, header):
            found.append(header)
            pos += header.size_bytes
    except BatchError:
        pass
    return found


@pytest.fixture(autouse=True)
def only_with_kernels(backend_name: str) -> None:
    if backend_name != "c":
        assert sound_headers(BLOB) == []
        pytest.skip("all are looked at one by one")


def test_all_fields_are_read():
    found = sound_headers(BLOB)
    assert found == one_by_one(BLOB)
    assert len(found) == 3
    assert all(type(header) is BatchHeader for header in found)
    assert sound_headers(b"xyz" + BLOB, 3) == found
    assert sound_headers(memoryview(bytearray(BLOB))[len(BATCHES[0]) :]) == found[1:]


def test_a_cut_batch_is_none():
    edges = [0, len(BATCHES[0]), len(BATCHES[0] + BATCHES[1])]
    for size in range(len(BLOB)):
        whole = sum(size >= edge for edge in [*edges[1:], len(BLOB)])
        # From malloc, so that what lies behind is nobody's.
        assert len(sound_headers(bytearray(BLOB[:size]))) == whole


def test_every_flipped_bit_is_seen_as_it_is_one_by_one():
    for bit in range(8 * len(BATCHES[0])):
        blob = bytearray(BLOB)
        blob[bit // 8] ^= 1 << bit % 8
        assert sound_headers(blob) == one_by_one(bytes(blob))


def test_headers_that_no_batch_has_end_it_whatever_the_crc():
    rng = random.Random(1)
    ended = 0
    for _ in range(2000):
        batch = bytearray(BATCHES[0])
        at = rng.choice([*range(8, 12), *range(21, 61)])
        batch[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        if at >= 21:
            stamp_crc(batch)
        blob = bytes(batch + BATCHES[1])
        found = sound_headers(blob)
        assert found == one_by_one(blob)
        ended += not found
    assert 100 < ended < 1900


def test_messages_of_older_formats_end_it():
    blob = bytes(build_message_set(RECORDS[:1], magic=1))
    assert sound_headers(blob) == []
    assert sound_headers(BATCHES[0] + blob) == one_by_one(BATCHES[0])


@pytest.mark.parametrize("pos", [-1, 1, 2**40])
def test_a_position_outside_is_refused(pos: int):
    with pytest.raises(ValueError, match=f"at {pos} of 0 bytes"):
        backend.kernels.sound_headers(b"", pos, BatchHeader)
