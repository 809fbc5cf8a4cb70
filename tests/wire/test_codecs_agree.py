"""Every message at every version: both backends against the slow interpreter, byte for byte.

To draw an object takes Hypothesis ten times as long as what is then done with it, so those that are
drawn here go through the JSON form, too.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from ..in_turn import in_turn
from . import interpreter
from .catalogue import CODECS, MESSAGES, codec, extreme, objects
from .every_version import at_every_version
from .test_json_form import assert_same_both_ways


def joined(parts: Any) -> bytes:
    return b"".join(bytes(part) for part in parts)


def check(cls: Any, version: int, message: Any) -> None:
    expected = interpreter.write_message(message, version)
    read_back = interpreter.read_message(cls, expected, version)
    for name in CODECS:
        machine = codec(name, cls, version)
        assert machine.encode(message) == expected, name
        assert joined(machine.encode_parts(message)) == expected, name
        for data in (expected, bytearray(expected), memoryview(expected)):
            decoded = machine.decode(data)
            assert decoded == read_back, name
        assert machine.encode(decoded) == expected, name
        offset, end = machine.read(b"xyz" + expected + b"tail", 3)
        assert offset == read_back
        assert end == 3 + len(expected)


@at_every_version
def test_default_objects(cls: Any, version: int) -> None:
    message = cls()
    for field in cls.fields:  # defaults of None where this version has no null
        needs_value = field.versions.holds(version) and not field.nullable.holds(version)
        if field.default is None and needs_value:
            setattr(message, field.name, [] if field.is_array else "")
    check(cls, version, message)


@at_every_version
def test_extreme_objects(cls: Any, version: int) -> None:
    for most in (False, True):
        check(cls, version, extreme(cls, version, cls.is_flexible(version), most=most))


@in_turn("cls", MESSAGES)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_random_objects(cls: Any, data: Any) -> None:
    version = data.draw(st.integers(cls.min_version, cls.max_version))
    message = data.draw(objects(cls, version, cls.is_flexible(version)))
    check(cls, version, message)
    assert_same_both_ways(cls, version, message)
