"""The offset index by itself: where a search begins, what a cut leaves, what a file may say."""

from __future__ import annotations

import struct

import pytest

from fencepost.log.errors import CorruptFileError
from fencepost.log.offset_index import OffsetIndex

ENTRIES = [(3, 100), (7, 200), (9, 350)]
LOG_BYTES = 400


def index() -> OffsetIndex:
    made = OffsetIndex()
    for entry in ENTRIES:
        made.append(*entry)
    return made


def entries(found: OffsetIndex) -> list[tuple[int, int]]:
    return list(zip(found.offsets, found.positions, strict=True))


def content(*pairs: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">II", *pair) for pair in pairs)


def test_a_search_begins_at_the_last_entry_that_is_not_above():
    begins = [index().floor(offset) for offset in (2, 3, 6, 7, 8, 9, 1 << 31)]
    first, second, third = ENTRIES
    assert begins == [(-1, 0), first, first, second, second, third, third]
    places = [index().floor_position(at) for at in (99, 100, 199, 200, 349, 350, 1 << 31)]
    assert places == [(-1, 0), first, first, second, second, third, third]


@pytest.mark.parametrize(("position", "left"), [(99, 0), (100, 0), (101, 1), (200, 1), (351, 3)])
def test_a_batch_that_begins_where_the_log_is_cut_is_forgotten(position: int, left: int):
    cut = index()
    cut.truncate(position)
    assert entries(cut) == ENTRIES[:left]


def test_a_file_has_all_entries_and_zeros_at_its_end_are_passed_over():
    assert index().encode() == content(*ENTRIES)
    for zeros in (0, 1, 3):
        data = content(*ENTRIES, *[(0, 0)] * zeros)
        assert entries(OffsetIndex.decode("x", data, LOG_BYTES)) == ENTRIES
    last = OffsetIndex.decode("x", content(((1 << 31) - 1, LOG_BYTES - 1)), LOG_BYTES)
    assert entries(last) == [((1 << 31) - 1, LOG_BYTES - 1)]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (content(*ENTRIES)[:-1], "not whole entries"),
        (content((3, 100), (3, 200)), "do not increase"),
        (content((3, 100), (2, 200)), "do not increase"),
        (content((3, 100), (4, 100)), "do not increase"),
        (content((3, 100), (4, 99)), "do not increase"),
        (content((3, LOG_BYTES)), "points beyond"),
        (content((1 << 31, 100)), "points beyond"),
    ],
)
def test_a_file_that_cannot_be_of_its_segment_is_refused(data: bytes, says: str):
    with pytest.raises(CorruptFileError, match=says):
        OffsetIndex.decode("x", data, LOG_BYTES)
