"""CRC-32C: known answers, every length around the kernel's block sizes, and in parts."""

from __future__ import annotations

import random

import google_crc32c
import pytest

from fencepost.batch import backend
from fencepost.batch.crc import crc32c

RNG = random.Random(3)
LENGTHS = [*range(130), 255, 256, 767, 768, 769, 4096, 12287, 12288, 12300, 70_000, 300_001]


def slow_crc(data: bytes) -> int:
    """Bit by bit, as the definition goes."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


# RFC 3720, B.4.
@pytest.mark.parametrize(
    ("data", "value"),
    [
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"123456789", 0xE3069283),
    ],
)
def test_known_answers(data, value):
    assert crc32c(data) == slow_crc(data) == value


def test_every_length_and_kind_of_buffer():
    for length in LENGTHS:
        data = RNG.randbytes(length)
        expected = google_crc32c.value(data)
        assert crc32c(data) == expected, length
        assert crc32c(bytearray(data)) == expected, length
        assert crc32c(memoryview(b"x" + data)[1:]) == expected, length
        assert crc32c(memoryview(bytearray(data))) == expected, length
        middle = length // 3
        assert crc32c(data[middle:], crc32c(data[:middle])) == expected, length


def test_the_kernels_own_sum_is_right_too():
    if backend.kernels is None:
        assert backend.name() == "python"
        return
    for length in LENGTHS:
        data = RNG.randbytes(length)
        assert backend.kernels.crc32c(data) == google_crc32c.value(data)
