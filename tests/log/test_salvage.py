"""What the files of a damaged log still tell of where it ended."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from fencepost.batch.records import build_batch
from fencepost.log.names import LEADER_EPOCH_FILE
from fencepost.log.salvage import log_end_of, sound_batches
from fencepost.sim.disk import SimDisk

LOG = "/log"


def batch(offset: int, count: int = 1, epoch: int = 3, value: bytes = b"\x02" * 40) -> bytes:
    """Records whose bytes look like a batch's magic everywhere."""
    return bytes(build_batch([(None, value)] * count, base_offset=offset, leader_epoch=epoch))


def a_log(*segments: tuple[int, bytes], epochs: bytes | None = b"0\n1\n3 0\n") -> SimDisk:
    disk = SimDisk()
    disk.mkdir(LOG)
    for base_offset, content in segments:
        disk.write_atomic(f"{LOG}/{base_offset:020d}.log", content)
    if epochs is not None:
        disk.write_atomic(f"{LOG}/{LEADER_EPOCH_FILE}", epochs)
    return disk


def offsets(disk: SimDisk) -> list[int]:
    return [header.base_offset for header, _ in sound_batches(disk, LOG)]


BATCHES = [batch(offset, 2) for offset in range(0, 20, 2)]


@given(st.integers(0, len(BATCHES[0]) - 1), st.integers(1, 255), st.integers(0, 9))
def test_batches_behind_any_flipped_byte_are_found(at: int, mask: int, number: int):
    content = bytearray(b"".join(BATCHES))
    position = number * len(BATCHES[0]) + at
    content[position] ^= mask
    found = offsets(a_log((0, bytes(content))))
    others = [2 * one for one in range(10) if one != number]
    assert [one for one in found if one in others] == others
    if at >= 16:  # what stands before is not in the checksum
        assert found == others


@given(st.binary(max_size=300))
def test_batches_behind_anything_are_found(garbage: bytes):
    disk = a_log((0, BATCHES[0] + garbage + BATCHES[1]), (4, garbage + BATCHES[2]))
    assert offsets(disk) == [0, 2, 4]


def test_a_batch_that_is_cut_off_is_none():
    assert offsets(a_log((0, b"".join(BATCHES)[:-1]))) == list(range(0, 18, 2))
    assert offsets(a_log((0, BATCHES[0][:30]))) == []
    assert offsets(a_log((0, b""))) == []
    assert offsets(a_log()) == []


def test_an_offset_that_the_bytes_leave_no_room_for_is_not_believed():
    content = BATCHES[0] + batch(1 << 40) + BATCHES[1] + batch(3)
    assert offsets(a_log((0, content), (50, BATCHES[0]))) == [0, 2, 3]


def test_the_end_is_that_of_the_last_sound_batch_or_what_was_known():
    corrupt = bytearray(BATCHES[3])
    corrupt[-1] ^= 1
    disk = a_log((0, b"".join(BATCHES[:3]) + corrupt + b"".join(BATCHES[4:6])))
    assert log_end_of(disk, LOG, 5, 9) == (3, 12)
    assert log_end_of(disk, LOG, 14, 9) == (3, 14)


def test_later_epochs_count_before_longer_logs_and_none_above_the_latest():
    content = batch(0, 4, epoch=3) + batch(4, 1, epoch=5) + batch(5, 1, epoch=6)
    disk = a_log((0, content), epochs=b"0\n2\n3 0\n5 4\n")
    assert log_end_of(disk, LOG, 4, 9) == (6, 6)
    assert log_end_of(disk, LOG, 4, 5) == (5, 5), "an epoch is not in the checksum"
    assert log_end_of(disk, LOG, 9, 9) == (6, 6)
    assert log_end_of(disk, LOG, 9, 5) == (5, 9)


@pytest.mark.parametrize("epochs", [None, b"garbage", b"0\n1\n3 100\n"])
def test_an_epoch_that_cannot_be_told_is_taken_for_the_latest(epochs: bytes | None):
    disk = a_log((0, BATCHES[0]), epochs=epochs)
    assert log_end_of(disk, LOG, 10, 7) == (7, 10)
