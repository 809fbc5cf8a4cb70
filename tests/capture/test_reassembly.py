"""From TCP segments to one direction's bytes and gaps."""

from __future__ import annotations

import random
from collections.abc import Iterable

from hypothesis import given, settings, strategies as st

from fencepost.capture.reassembly import PATIENCE, Gap, Reassembler


def joined(parts: Iterable[bytes | Gap]) -> bytes:
    return b"".join(b"?" * part.size if isinstance(part, Gap) else part for part in parts)


def test_in_order_and_across_the_end_of_sequence_numbers():
    stream = Reassembler(1000)
    stream.begin(2**32 - 2)
    assert stream.push(2**32 - 2, b"abc", 3) == [b"abc"]
    assert stream.push(1, b"de", 2) == [b"de"]
    assert stream.push(4, b"g", 1) == []
    assert stream.push(3, b"f", 1) == [b"f", b"g"]
    assert stream.held_bytes == 0


def test_retransmissions_and_overlaps_count_once():
    stream = Reassembler(1000)
    stream.begin(0)
    assert stream.push(0, b"abcd", 4) == [b"abcd"]
    assert stream.push(0, b"XXXX", 4) == []
    assert stream.push(3, b"Xe", 2) == [b"e"]
    assert stream.push(7, b"h", 1) == []
    assert stream.push(6, b"gh", 2) == []
    assert stream.push(6, b"g", 1) == []
    assert stream.push(5, b"f", 1) == [b"f", b"gh"]


def test_a_hole_that_was_acknowledged_is_given_up_after_a_while():
    stream = Reassembler(10_000)
    stream.begin(0)
    assert stream.push(2, b"c", 1) == []
    for at in range(3, 30):
        assert stream.push(at, b"x", 1) == []  # it was not acknowledged, so it may still come
    stream.acknowledge(20)
    found = [part for at in range(30, 31 + PATIENCE) for part in stream.push(at, b"y", 1)]
    assert found[0] == Gap(2)
    assert joined(found) == b"??c" + b"x" * 27 + b"y" * (1 + PATIENCE)


def test_what_is_held_back_is_bounded():
    stream = Reassembler(2000)
    stream.begin(0)
    found: list[bytes | Gap] = []
    for at in range(100, 100_000, 100):
        found += stream.push(at, b"x" * 50, 50)
        assert stream.held_bytes <= 2000 + 50 + 128
    assert found[:3] == [Gap(100), b"x" * 50, Gap(50)]


def test_what_the_snapshot_length_cut_is_a_gap():
    stream = Reassembler(1000)
    assert stream.push(50, b"ab", 5) == [b"ab", Gap(3)]
    assert stream.push(55, b"f", 1) == [b"f"]
    assert stream.push(57, b"h", 1) == []
    assert stream.flush() == [Gap(1), b"h"]


@settings(max_examples=200, deadline=None, database=None)
@given(st.binary(min_size=1, max_size=200), st.integers(0, 2**32 - 1), st.randoms())
def test_any_order_with_repetitions_gives_the_same_bytes(
    data: bytes, begin: int, dice: random.Random
):
    cuts = sorted(dice.sample(range(len(data) + 1), min(len(data), 5)))
    pieces = list(zip([0, *cuts], [*cuts, len(data)]))
    pieces += [(at, min(len(data), at + 7)) for at in dice.sample(range(len(data)), 1)]
    dice.shuffle(pieces)
    stream = Reassembler(1 << 20)
    stream.begin(begin)
    found: list[bytes | Gap] = []
    for start, end in pieces:
        found += stream.push((begin + start) % 2**32, data[start:end], end - start)
    assert joined(found) == data and stream.held_bytes == 0
