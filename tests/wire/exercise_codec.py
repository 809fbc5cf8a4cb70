"""Drives the compiled codec to the edges of its buffers: `python -m tests.wire.exercise_codec SO`.

Run by `test_sanitized` under AddressSanitizer, which ends the process at the first byte that is
read or written out of bounds. What is decoded lies at the end of memory from malloc: the NUL that
Python keeps behind `bytes` and `bytearray` would hide a byte too many. What is encoded ends around
every boundary at which the codec's buffer grows. Then the tests of objects run, whose code changes
what is being written.
"""

from __future__ import annotations

import random
import struct
import sys
from array import array
from collections.abc import Iterator
from typing import Any

from .. import sanitized

sanitized.load("fencepost.wire._codec", sys.argv[1])

import pytest  # noqa: E402 - our codec has to be loaded before any import chooses one

from fencepost.wire import backend  # noqa: E402
from fencepost.wire.errors import DecodeError  # noqa: E402
from fencepost.wire.message import Message, field  # noqa: E402
from fencepost.wire.types import (  # noqa: E402
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uuid,
)

from .catalogue import VERSIONS, codec, extreme  # noqa: E402
from .samples import Leaf  # noqa: E402
from .test_hostile import (  # noqa: E402
    BOMBS,
    HOSTILE_LENGTHS,
    HOSTILE_VARINTS,
    TARGETS,
    cut_positions,
)

STACK_BYTES = 1024
"""`_codec.pyx`: shorter messages are written on the stack, longer ones into memory that grows."""

LONGEST_NUMBER_BYTES = 16

TESTS_OF_OBJECTS = ["tests/wire/test_hostile_objects.py", "tests/wire/test_objects.py"]

SPOTS = [
    *(struct.pack(">i", value) for value in HOSTILE_LENGTHS),
    *(struct.pack(">h", value) for value in (-2, -1, 0x7FFF, -0x8000)),
    *(bytes.fromhex(value) for value in HOSTILE_VARINTS),
    *(bytes.fromhex(value)[:-1] for value in HOSTILE_VARINTS),
]
"""What may stand where a length, a count or a tag is expected, and such that break off."""


class Padded(Message, kind="data", versions="0-1", flexible="1+"):
    """One of everything, as far from the start as one likes."""

    padding: Bytes = field()
    int8: Int8 = field()
    int16: Int16 = field()
    int64: Int64 = field()
    ratio: Float64 = field()
    flag: Bool = field()
    uuid: Uuid = field()
    text: String = field()
    nothing: String | None = field(nullable="0+", default=None)
    blob: Bytes = field()
    content: Records = field()
    leaf: Leaf | None = field(nullable="0+", default=None)
    no_leaf: Leaf | None = field(nullable="0+", default=None)
    numbers: list[Int32] = field()
    uuids: list[Uuid] = field()
    leaves: list[Leaf] = field()
    tagged: Bytes = field("1+", tag=0)
    tagged_text: String = field("1+", tag=1)
    tagged_leaves: list[Leaf] = field("1+", tag=2)


def at_the_end(data: bytes) -> memoryview:
    """The same bytes with nothing behind them, and none but them at hand for a codec."""
    return memoryview(array("B", b"\0" + data)[:])[1:]  # the copy has no room for more


def read(machine: Any, data: bytes) -> Any:
    """The message that the bytes are; None when they are not."""
    try:
        return machine.decode(at_the_end(data))
    except DecodeError:
        return None


def every_message() -> None:
    """Each at either end of its ranges, whole, without its last byte and cut somewhere."""
    draw = random.Random(1)
    for cls, version in VERSIONS:
        machine = codec("c", cls, version)
        for most in (False, True):
            message = extreme(cls, version, cls.is_flexible(version), most=most)
            data = machine.encode(message)
            assert machine.encode(message) == b"".join(machine.encode_parts(message)) == data
            assert read(machine, data) == message
            for size in {0, len(data) - 1, draw.randrange(len(data) or 1)} & set(range(len(data))):
                assert read(machine, data[:size]) is None


def one_byte_short(data: bytes) -> Iterator[bytes]:
    """Whatever may be a short length, less one, and the end where it now says."""
    for at, length in enumerate(data):
        if 0 < length <= LONGEST_NUMBER_BYTES and at + length < len(data):
            yield data[:at] + bytes([length - 1]) + data[at + 1 : at + length]


def cuts_and_hostile_lengths() -> None:
    """Cut at each byte, and with something hostile there, be it the last or in the midst."""
    draw = random.Random(2)
    for cls, version in TARGETS:
        machine = codec("c", cls, version)
        data = machine.encode(extreme(cls, version, cls.is_flexible(version), most=True))
        for at in cut_positions(len(data)):
            assert read(machine, data[:at]) is None
            read(machine, data[:at] + draw.choice(SPOTS))
            spot = draw.choice(SPOTS)
            read(machine, data[:at] + spot + data[at + len(spot) :])
        for shortened in one_byte_short(data):
            read(machine, shortened)
    for cls, version, hexadecimal in BOMBS.values():
        for padding in (0, 1, 20_000):
            read(codec("c", cls, version), bytes.fromhex(hexadecimal) + b"\x01" * padding)


def padded(padding: int, **values: Any) -> Padded:
    leaf = Leaf(name="leaf")
    return Padded(
        padding=bytes(padding),
        **{"text": "text", "blob": b"blob", "content": b"content", "leaf": leaf} | values,
        numbers=[1, 2, 3],
        uuids=[Uuid.ZERO],
        leaves=[leaf, leaf],
    )


def written(version: int, message: Message) -> bytes:
    """The message's bytes, which are the same in parts."""
    machine = codec("c", type(message), version)
    data: bytes = machine.encode(message)
    assert b"".join(machine.encode_parts(message)) == data
    return data


def every_field_at_the_end_of_a_buffer() -> None:
    """Of the stack, and of memory that has the size of the message before."""
    for version in (0, 1):
        tags: Any = {"tagged": b"tagged", "tagged_text": "ä", "tagged_leaves": [Leaf()]}
        values = tags if version else {}
        tail = written(version, padded(0, **values))[5:]
        for padding in range(STACK_BYTES - len(tail) - 8, STACK_BYTES + 8):
            assert written(version, padded(padding, **values)).endswith(tail)
        for more in range(len(tail) + 8):
            written(version, padded(2 * STACK_BYTES, **values))
            assert written(version, padded(2 * STACK_BYTES + more, **values)).endswith(tail)


def tags_of_every_size() -> None:
    """The size of a tag is written when the value is: it may need room that is not there."""
    head = len(written(1, padded(0)))
    sizes = [
        *range(140),
        *range(STACK_BYTES - head - 40, STACK_BYTES + 20),
        *(around + step for around in (2048, 16384, 2 << 20) for step in range(-8, 9)),
    ]
    machine = codec("c", Padded, 1)
    for size in sizes:
        for unknown in (None, {7: b"u" * (size % 300)}):
            message = padded(0, tagged=b"t" * size)
            message.unknown_tags = unknown
            assert read(machine, written(1, message)) == message


def main() -> None:
    """Exits with pytest's code, after a line that says how far it came."""
    assert backend.name() == "c"
    cuts_and_hostile_lengths()
    every_field_at_the_end_of_a_buffer()
    tags_of_every_size()
    every_message()
    print("all edges held", flush=True)
    options = ["-q", "-p", "no:cacheprovider", "-k", "not python and not copied"]
    sys.exit(pytest.main([*options, *TESTS_OF_OBJECTS]))


if __name__ == "__main__":
    main()
