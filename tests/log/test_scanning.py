"""Where the scan of a segment file ends: at damage, at what knows nothing of a gap, at its end."""

from __future__ import annotations

import pytest

from fencepost.batch.header import MESSAGE_BYTES_MIN, stamp
from fencepost.batch.legacy import build_message_set
from fencepost.batch.record import Record
from fencepost.log.scanning import scan
from fencepost.sim.disk import SimDisk

from .helpers import make_batch

PATH = "/0.log"


def scanned(data: bytes, size_bytes: int | None = None) -> list[int]:
    """The base offsets of what is found in a segment that begins at 0."""
    disk = SimDisk()
    disk.write_atomic(PATH, data)
    size_bytes = len(data) if size_bytes is None else size_bytes
    return [header.base_offset for _, header in scan(disk, PATH, size_bytes, 0)]


def batches(*offsets: int) -> bytes:
    """Batches of one record each."""
    data = b""
    for offset in offsets:
        batch = make_batch(1)
        stamp(batch, 0, base_offset=offset, leader_epoch=0)
        data += batch
    return data


@pytest.mark.parametrize(
    ("offsets", "sound"),
    [
        pytest.param((0, 5), 2, id="nothing-behind-the-gap"),
        pytest.param((0, 5, 6), 3, id="next-behind-the-gap"),
        pytest.param((0, 5, 9, 10, 20), 5, id="gap-behind-gap"),
        pytest.param((0, 5, 1), 1, id="first-offset-of-the-gap"),
        pytest.param((0, 5, 4), 1, id="last-offset-of-the-gap"),
        pytest.param((0, 5, 5), 1, id="the-same-twice"),
        pytest.param((0, 5, 0), 2, id="an-offset-in-front-of-the-gap"),
        pytest.param((0, 1, 0), 2, id="an-offset-in-front"),
    ],
)
def test_a_batch_behind_a_gap_counts_unless_the_next_one_lies_in_the_gap(offsets, sound):
    """A flipped bit of a base offset looks like a gap, and is under no CRC."""
    assert scanned(batches(*offsets)) == list(offsets[:sound])


def test_a_file_that_is_shorter_than_it_was_ends_the_scan():
    data = batches(0, 1)
    for cut in (0, 1, len(data) // 2, len(data) - 1, len(data)):
        for size_bytes in (len(data), len(data) + 26, len(data) + 1000):
            found = scanned(data[:cut], size_bytes)
            assert found == [0, 1][: cut * 2 // len(data)], (cut, size_bytes)


def test_the_smallest_message_there_is_counts_at_the_end_of_a_file():
    message = bytes(build_message_set([Record(0, -1, -1, None, None)], magic=0))
    assert len(message) == MESSAGE_BYTES_MIN
    assert scanned(message) == [0]
    assert scanned(message[:-1]) == []
