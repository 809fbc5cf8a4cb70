"""Frames out of a stream: whole, byte by byte, with a tail, and with false lengths."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable

import pytest

from fencepost.client.errors import ProtocolError
from fencepost.client.protocol.framing import (
    BUFFER_STEP_BYTES,
    FIRST_ALLOCATION_BYTES,
    FrameReader,
    ReceiveBuffer,
)

MAX_BYTES = 8 * FIRST_ALLOCATION_BYTES
PAYLOADS = [b"four", b"a response", bytes(range(256)) * 300, b"tail"]

Receive = Callable[[FrameReader, bytes], list[bytes]]


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def fed(reader: FrameReader, data: bytes) -> list[bytes]:
    return [bytes(frame) for frame in reader.feed(data)]


def received(reader: FrameReader, data: bytes) -> list[bytes]:
    """As a socket loop does that receives into memory."""
    frames = []
    while data:
        buffer = reader.get_buffer()
        assert len(buffer) > 0
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        frame = reader.buffer_updated(count)
        if frame is not None:
            frames.append(bytes(frame))
    return frames


@pytest.fixture(params=[fed, received])
def receive(request: pytest.FixtureRequest) -> Receive:
    return request.param


def test_frames_that_come_whole(receive: Receive):
    assert receive(FrameReader(MAX_BYTES), framed(*PAYLOADS)) == PAYLOADS


def test_frames_that_come_byte_by_byte(receive: Receive):
    reader = FrameReader(MAX_BYTES)
    stream = framed(b"four", b"a response")
    found = [frame for at in range(len(stream)) for frame in receive(reader, stream[at : at + 1])]
    assert found == [b"four", b"a response"]


def test_the_tail_of_a_frame_is_kept_for_the_rest_of_it(receive: Receive):
    reader = FrameReader(MAX_BYTES)
    stream = framed(*PAYLOADS)
    for cut in (2, 4, 7, 9, len(stream) - 1):
        assert receive(reader, stream[:cut]) + receive(reader, stream[cut:]) == PAYLOADS


@pytest.mark.parametrize("seed", range(10))
def test_frames_that_come_in_any_pieces(receive: Receive, seed: int):
    dice = random.Random(seed)
    sizes = [4, 5, 70_000, FIRST_ALLOCATION_BYTES, 5 * FIRST_ALLOCATION_BYTES + 3]
    payloads = [dice.randbytes(dice.choice(sizes)) for _ in range(4)]
    stream, reader, found, at = framed(*payloads), FrameReader(MAX_BYTES), [], 0
    while at < len(stream):
        size = dice.choice([1, 3, 4, 100, 65_536, 1 << 20, 1 << 22])
        found += receive(reader, stream[at : at + size])
        at += size
    assert found == payloads


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 3, 1001, 2**31 - 1])
def test_a_length_out_of_bounds_is_refused_by_its_four_bytes_alone(receive: Receive, size: int):
    reader = FrameReader(1000, host="kafka:9092")
    with pytest.raises(ProtocolError, match=rf"kafka:9092: .* {size} bytes; allowed are 4 to 1000"):
        receive(reader, struct.pack(">i", size))


@pytest.mark.parametrize("size", [4, 1000])
def test_a_length_at_a_bound_is_taken(receive: Receive, size: int):
    assert receive(FrameReader(1000), framed(bytes(size))) == [bytes(size)]


def test_a_length_alone_costs_no_memory(receive: Receive):
    """A peer that announces a gigabyte and sends a few bytes gets no gigabyte."""
    reader = FrameReader(1 << 30)
    tracemalloc.start()
    try:
        receive(reader, struct.pack(">i", 1 << 30) + b"some")
        assert tracemalloc.get_traced_memory()[1] < 2 * FIRST_ALLOCATION_BYTES
    finally:
        tracemalloc.stop()


def test_a_frame_within_what_was_fed_is_not_copied():
    data = framed(b"a response")
    (frame,) = FrameReader(MAX_BYTES).feed(data)
    assert frame.obj is data


def test_a_receive_buffer_takes_the_frame_and_is_used_again():
    buffer, reader, memory = ReceiveBuffer(), FrameReader(MAX_BYTES), set()
    for payload in (b"first", b"and the second"):
        data, frame = framed(payload), None
        while data:
            target = reader.get_buffer(buffer)
            target[:] = data[: len(target)]
            data = data[len(target) :]
            frame = reader.buffer_updated(len(target))
        assert frame is not None and bytes(frame) == payload
        memory.add(id(frame.obj))
    assert len(memory) == 1


def test_a_receive_buffer_that_grew_takes_slightly_larger_frames():
    buffer = ReceiveBuffer()
    memory = {id(buffer.view(size_bytes).obj) for size_bytes in range(100_000, 200_000, 5000)}
    assert len(memory) == 1
    assert len(buffer.view(BUFFER_STEP_BYTES + 1)) == BUFFER_STEP_BYTES + 1
