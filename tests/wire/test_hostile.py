"""Bytes that are not messages: cut off, stretched, with lengths from hell, one byte wrong.

Whatever comes in, a decoder answers with the message or with DecodeError, like the slow
interpreter does, and it never allocates for a length that it has not seen to be there.
"""

from __future__ import annotations

import random
import struct
import tracemalloc
from typing import Any

import pytest

from fencepost.wire.api.fetch import FetchResponse
from fencepost.wire.api.metadata import MetadataResponse
from fencepost.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from fencepost.wire.errors import DecodeError
from fencepost.wire.header import RequestHeader
from fencepost.wire.layout import layout_of
from fencepost.wire.records.transaction import TransactionLogValue
from fencepost.wire.types import FIXED_CODES

from ..in_turn import in_turn
from . import interpreter
from .catalogue import CODECS, MESSAGES, VERSIONS, codec, extreme, version_id
from .samples import Arrays, Primitives, Sample

TARGETS = [
    *((Sample, version) for version in range(4)),
    *((cls, version) for cls in (Primitives, Arrays) for version in range(2)),
    (FetchResponse, 11),
    (FetchResponse, 17),
    (MetadataResponse, 12),
    (OffsetForLeaderEpochRequest, 3),
    (OffsetForLeaderEpochRequest, 4),
    *((RequestHeader, version) for version in range(3)),
    (TransactionLogValue, 1),
]
HOSTILE_LENGTHS = [-2, -1, 0, 1, 0x7F, 0x7FFF, 0x7FFFFFF0, 0x7FFFFFFF, -0x80000000]
HOSTILE_VARINTS = ["00", "01", "7f", "8001", "ffffffff07", "ffffffff0f", "ffffffff1f", "ff" * 9]


def outcome(decode: Any, *arguments: Any) -> Any:
    """The message, or None for DecodeError (the interpreter: Bad); anything else is a failure."""
    try:
        return decode(*arguments)
    except (DecodeError, interpreter.Bad):
        return None


def check(cls: Any, version: int, data: bytes) -> None:
    expected = outcome(interpreter.read_message, cls, data, version)
    for name in CODECS:
        machine = codec(name, cls, version)
        for source in (data, memoryview(bytearray(data))):
            got = outcome(machine.decode, source)
            assert same(got, expected), (name, data.hex())
        if expected is not None:
            assert same(machine.decode(machine.encode(expected)), expected)


def same(one: Any, other: Any) -> bool:
    """Equal, or different only in that a NaN is no NaN's equal."""
    return bool(one == other or repr(one) == repr(other))


def cut_positions(size: int) -> Any:
    """Every position of a short input, a fair sample of a long one."""
    return range(size) if size < 400 else sorted(random.Random(size).sample(range(size), 200))


@pytest.mark.parametrize(("cls", "version"), TARGETS, ids=version_id)
class TestDamage:
    def test_cut_at_every_byte(self, cls: Any, version: int) -> None:
        data = interpreter.write_message(
            extreme(cls, version, cls.is_flexible(version), most=True), version
        )
        for size in cut_positions(len(data)):
            for name in CODECS:
                machine = codec(name, cls, version)
                for source in (data[:size], memoryview(data)[:size]):
                    with pytest.raises(DecodeError) as caught:
                        machine.decode(source)
                    assert 0 <= caught.value.position <= size

    def test_trailing_bytes(self, cls: Any, version: int) -> None:
        data = interpreter.write_message(
            extreme(cls, version, cls.is_flexible(version), most=False), version
        )
        for tail in (b"\0", b"\xff", b"\0" * 100):
            for name in CODECS:
                with pytest.raises(DecodeError, match="left over"):
                    codec(name, cls, version).decode(data + tail)

    def test_every_byte_replaced(self, cls: Any, version: int) -> None:
        for most in (False, True):
            data = interpreter.write_message(
                extreme(cls, version, cls.is_flexible(version), most=most), version
            )
            for at in cut_positions(len(data)):
                for byte in {0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1} - {data[at]}:
                    check(cls, version, data[:at] + bytes([byte]) + data[at + 1 :])

    def test_lengths_replaced(self, cls: Any, version: int) -> None:
        data = interpreter.write_message(
            extreme(cls, version, cls.is_flexible(version), most=True), version
        )
        spots = [
            *((struct.pack(">i", value), 4) for value in HOSTILE_LENGTHS),
            *((struct.pack(">h", value), 2) for value in (-2, -1, 0x7FFF, -0x8000)),
            *((bytes.fromhex(value), 1) for value in HOSTILE_VARINTS),
        ]
        chosen = random.Random(version)
        for at in cut_positions(len(data)):
            spot, width = chosen.choice(spots)
            check(cls, version, data[:at] + spot + data[at + width :])


@in_turn("cls", MESSAGES)
def test_noise_and_damage_in_every_message(cls: Any) -> None:
    """A little of everything for each message at its newest version; seeded by its name."""
    draw = random.Random(cls.__name__)
    version = cls.max_version
    check(cls, version, b"")
    check(cls, version, draw.randbytes(40))
    check(cls, version, b"\xff" * 40)
    check(cls, version, b"\x00" * 400)
    whole = bytearray(
        interpreter.write_message(
            extreme(cls, version, cls.is_flexible(version), most=True), version
        )
    )
    for _ in range(12 if whole else 0):
        damaged = bytearray(whole)
        damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        check(cls, version, bytes(damaged))


BOMBS = {
    "count of topics": (OffsetForLeaderEpochRequest, 3, "ffffffff 7fffffff"),
    "compact count": (OffsetForLeaderEpochRequest, 4, "ffffffff ffffffff0f"),
    "count of int32": (Sample, 1, "00 0000 00000000 0000 7fffffff"),
    "count of strings": (Sample, 1, "00 0000 00000000 0000 00000000 7fffffff"),
    "length of string": (Sample, 1, "00 0000 00000000 7fff"),
    "length of bytes": (Sample, 2, "00 0000 01 01 00 01 ffffffff0f"),
    "length of records": (Sample, 2, "00 0000 01 01 00 01 01 ffffffff0f"),
    "count of tags": (Sample, 2, "00 0000 01 01 00 01 01 00 ffffffff0f"),
    "size of a tag": (Sample, 2, "00 0000 01 01 00 01 01 00 01 09 ffffffff0f"),
    "count of uuids": (Arrays, 0, "00000000 00000000 7fffffff"),
}


@pytest.mark.parametrize("name", sorted(CODECS))
@pytest.mark.parametrize("bomb", sorted(BOMBS))
def test_claims_cost_no_memory(bomb: str, name: str) -> None:
    cls, version, hexadecimal = BOMBS[bomb]
    machine = codec(name, cls, version)
    for padding in (0, 20_000):
        data = bytes.fromhex(hexadecimal) + b"\x01" * padding
        outcome(machine.decode, data)  # compiled now
        tracemalloc.start()
        try:
            outcome(machine.decode, data)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak <= 8 * len(data) + 256 * 1024


@pytest.mark.parametrize("name", sorted(CODECS))
def test_nested_claims_add_up_to_the_input(name: str) -> None:
    """Arrays in arrays in arrays, each claiming all that is left, over 60 kB of garbage."""
    machine = codec(name, MetadataResponse, 12)
    data = bytes.fromhex("00000000 01 00 00000000 e0d403") + b"\x7f" * 60_000
    with pytest.raises(DecodeError):
        machine.decode(data)
    tracemalloc.start()
    try:
        outcome(machine.decode, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 8 * len(data) + 256 * 1024


# Counts that claim what is left of the input, one inside of the other


def nested_claims(cls: Any, version: int, size: int) -> bytes:
    """A message whose first nested arrays each claim all of `size` bytes, and then garbage.

    Garbage would do for elements of numbers alone: of these, more are claimed than fit.
    """
    layout = layout_of(cls, version, cls.is_flexible(version))
    head = b""
    while layout is not None:
        inner = None
        for slot in layout.plain:
            if slot.field.is_array and slot.layout is not None:
                count = (size - len(head) - 5) // slot.element_min_size
                inner = slot.layout
                if all(part.field.primitive in FIXED_CODES for part in inner.plain):
                    count += 5
                head += write_count(count, slot.is_compact)
                break
            head += least(slot, version)
        layout = inner
    return head.ljust(size, b"\x7f")


def write_count(count: int, is_compact: bool) -> bytes:
    return interpreter.write_uvarint(count + 1) if is_compact else struct.pack(">i", count)


def least(slot: Any, version: int) -> bytes:
    """The shortest value of a field."""
    if slot.field.is_array:
        return write_count(0, slot.is_compact)
    flexible = slot.is_compact
    value = None if slot.is_nullable else slot.field.fresh_default()
    if value is None and not slot.is_nullable:
        value = ""
    return interpreter.write_field(slot.field, value, version, flexible)


def has_nested_arrays(layout: Any) -> bool:
    return any(slot.field.is_array and slot.layout is not None for slot in layout.plain)


NESTED = [
    (cls, version)
    for cls, version in VERSIONS
    if has_nested_arrays(layout_of(cls, version, cls.is_flexible(version)))
    and version in (cls.max_version, cls.flexible_from and cls.flexible_from - 1)
]


@in_turn("cls, version", NESTED)
def test_claims_inside_of_claims_cost_no_memory(cls: Any, version: int) -> None:
    for name in CODECS:
        machine = codec(name, cls, version)
        for size in (1000, 60_000):
            data = nested_claims(cls, version, size)
            outcome(machine.decode, data)  # compiled now
            tracemalloc.start()
            try:
                assert outcome(machine.decode, data) is None
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert peak <= 8 * len(data) + 256 * 1024, name
