"""From a stream of bytes to frames, whole, with gaps, or joined in the middle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.capture.framing import Cut, Skipped

from .wire_messages import cutter, heartbeats


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64, 10_000])
def test_frames_come_out_however_the_bytes_come_in(piece: int):
    frames, _ = heartbeats(5)
    data = b"".join(frames)
    cut = cutter()
    found = [
        one for at in range(0, len(data), piece) for one in cut.feed(data[at : at + piece])
    ]  # fmt: skip
    assert found == [Cut(frame) for frame in frames]
    assert list(cut.close()) == [] and cut.held_bytes == 0


@pytest.mark.parametrize("start", [0, 1, 5, 20, 30])
def test_who_joins_in_the_middle_begins_with_the_next_frame(start: int):
    frames, _ = heartbeats(4)
    data = b"".join(frames)[start:]
    whole = frames if start == 0 else frames[1:]
    found = list(cutter(in_sync=False).feed(data))
    skipped = len(data) - sum(map(len, whole))
    assert found == [
        *([Skipped(skipped, "joined in the middle")] if skipped else []),
        *map(Cut, whole),
    ]


def test_a_gap_within_one_frame_costs_one_frame():
    frames, _ = heartbeats(3, member="m" * 300)
    cut = cutter()
    found = list(cut.feed(frames[0] + frames[1][:40]))
    found += cut.gap(100)
    found += cut.gap(20)
    found += cut.feed(frames[1][160:] + frames[2])
    assert found == [
        Cut(frames[0]),
        Cut(frames[1][:40], len(frames[1]) - 40),
        Cut(frames[2]),
    ]


def test_a_gap_over_several_frames_is_searched_through():
    frames, _ = heartbeats(6)
    cut = cutter()
    found = list(cut.feed(frames[0] + frames[1][:20]))
    found += cut.gap(len(frames[1]) - 20 + len(frames[2]) + 10)
    found += cut.feed(frames[3][10:] + frames[4] + frames[5])
    lost = len(frames[2]) + 10 + len(frames[3]) - 10
    assert found == [
        Cut(frames[0]),
        Cut(frames[1][:20], len(frames[1]) - 20),
        Skipped(lost, "missing in the capture"),
        Cut(frames[4]),
        Cut(frames[5]),
    ]


def test_garbage_between_frames_is_skipped_and_counted():
    frames, _ = heartbeats(2)
    garbage = b"\x7f\xff\xff\xff" + b"GET / HTTP/1.1\r\n" * 9
    found = list(cutter().feed(frames[0] + garbage + frames[1]))
    assert found == [
        Cut(frames[0]),
        Skipped(len(garbage), "no frame of Kafka's"),
        Cut(frames[1]),
    ]


def test_zeros_and_small_numbers_are_no_frames():
    (frame,), _ = heartbeats(1)
    for filler in (bytes(3000), b"\0\1" * 3000, b"\0\0\0\x10" * 3000):
        cut = cutter(in_sync=False)
        found = [*cut.feed(filler + frame), *cut.close()]
        assert found == [Skipped(len(filler), "joined in the middle"), Cut(frame)]


def test_tls_is_called_by_its_name():
    cut = cutter()
    assert list(cut.feed(b"\x16\x03\x01\x02\x00" + bytes(range(256)) * 4)) == []
    (skipped,) = cut.close()
    assert skipped == Skipped(5 + 1024, "TLS")


def test_the_end_of_a_frame_is_missing_at_the_end():
    frames, _ = heartbeats(1)
    cut = cutter()
    assert list(cut.feed(frames[0][:-1])) == []
    assert list(cut.close()) == [Skipped(len(frames[0]) - 1, "the end of a frame is missing")]


@settings(max_examples=200, deadline=None, database=None)
@given(
    st.lists(st.binary(max_size=60) | st.integers(1, 2**31) | st.just("frame"), max_size=12),
    st.booleans(),
)
def test_every_byte_is_in_a_frame_or_counted(parts: list[Any], in_sync: bool):
    (frame,), _ = heartbeats(1)
    cut = cutter(in_sync=in_sync)
    found: list[Cut | Skipped] = []
    total = 0
    for part in parts:
        if isinstance(part, int):
            found += cut.gap(part)
            total += part
        else:
            data = frame if part == "frame" else part
            found += cut.feed(data)
            total += len(data)
    found += cut.close()
    counted = sum(
        one.size if isinstance(one, Skipped) else len(one.data) + one.missing for one in found
    )
    # A frame whose end is missing counts in full, also if the capture ends before it does.
    last_missing = max((one.missing for one in found if isinstance(one, Cut)), default=0)
    assert total <= counted <= total + last_missing
