"""Every message the package declares, and values for them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any

from hypothesis import strategies as st

import fencepost.wire.api
import fencepost.wire.draft
import fencepost.wire.header
from fencepost.wire import backend
from fencepost.wire.generated import GeneratedCodec
from fencepost.wire.layout import layout_of
from fencepost.wire.message import Field, Message, Request, Struct
from fencepost.wire.types import RANGES, Primitive, Uuid

CODECS: dict[str, Any] = {"python": GeneratedCodec}
"""Both backends, or the one there is."""
if backend.name() == "c":
    CODECS["c"] = backend.make_codec


def declared_messages() -> list[type[Message]]:
    """All message classes of `fencepost.wire`, in a stable order."""
    packages = [
        fencepost.wire.api,
        fencepost.wire.draft,
        importlib.import_module("fencepost.wire.records"),
    ]
    for package in packages:
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
    classes = [cls for cls in subclasses(Message) if cls is not Request]
    found = [cls for cls in classes if cls.__module__.startswith("fencepost.wire.")]
    return sorted(found, key=lambda cls: (cls.__module__, cls.__name__))


def subclasses(cls: type) -> list[Any]:
    """Everything derived from `cls`, directly or not."""
    return [found for direct in cls.__subclasses__() for found in (direct, *subclasses(direct))]


MESSAGES = declared_messages()
RELEASED = [cls for cls in MESSAGES if not cls.__module__.startswith("fencepost.wire.draft.")]
"""Those that some release of Kafka has."""
VERSIONS = [
    (cls, version) for cls in MESSAGES for version in range(cls.min_version, cls.max_version + 1)
]


def version_id(value: Any) -> str:
    """How pytest names a parameter out of `MESSAGES` or `VERSIONS`."""
    return value.__name__ if isinstance(value, type) else f"v{value}"


@cache
def codec(name: str, cls: type[Message], version: int) -> Any:
    """The codec of one backend."""
    return CODECS[name](layout_of(cls, version, cls.is_flexible(version)))


# One value of everything, at its least or at its most


def extreme(cls: type[Struct], version: int, flexible: bool, *, most: bool) -> Any:
    """An object with every field the version has at one end of its range.

    The least: smallest numbers, nulls, empty arrays. The most: largest numbers, long strings,
    several elements in every array, every tag set, and undeclared tags.
    """
    values = {
        field.name: _extreme_value(field, version, flexible, most)
        for field in cls.fields
        if field.versions.holds(version)
    }
    message = cls(**values)
    if flexible and most:
        message.unknown_tags = {200: b"", 70000: b"\x00" * 200}
    return message


def _extreme_value(field: Field, version: int, flexible: bool, most: bool) -> Any:
    if field.nullable.holds(version) and not most:
        return None
    if field.is_array:
        count = _extreme_count(field) if most else 0
        return [_extreme_single(field, version, flexible, most) for _ in range(count)]
    return _extreme_single(field, version, flexible, most)


def _extreme_count(field: Field) -> int:
    """Many where elements are small: codecs treat long arrays of small things specially."""
    if field.struct is None:
        return 40
    return 2 if any(part.is_array or part.struct for part in field.struct.fields) else 6


def _extreme_single(field: Field, version: int, flexible: bool, most: bool) -> Any:
    if field.struct is not None:
        return extreme(field.struct, version, flexible, most=most)
    assert field.primitive is not None
    if field.primitive in RANGES:
        return RANGES[field.primitive][most]
    return {
        Primitive.BOOL: (False, True),
        Primitive.FLOAT64: (float("-inf"), 1.7976931348623157e308),
        Primitive.UUID: (Uuid.ZERO, Uuid(bytes(range(16)))),
        Primitive.STRING: ("", "\U0001f600ä" * 40),
        Primitive.BYTES: (b"", bytes(range(256))),
        Primitive.RECORDS: (b"", bytes(range(256)) * 2),
    }[field.primitive][most]


# Random values


def _numbers(primitive: Primitive) -> Any:
    low, high = RANGES[primitive]
    return st.sampled_from([low, -1 if low else 1, 0, 127, high]) | st.integers(low, high)


_PRIMITIVES: dict[Primitive, Any] = {
    **{primitive: _numbers(primitive) for primitive in RANGES},
    Primitive.BOOL: st.booleans(),
    Primitive.FLOAT64: st.floats(allow_nan=False),
    Primitive.UUID: st.just(Uuid.ZERO) | st.binary(min_size=16, max_size=16).map(Uuid),
    Primitive.STRING: st.sampled_from(["", "a" * 126, "a" * 127, "a" * 128])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    Primitive.BYTES: st.binary(max_size=8) | st.just(bytes(300)),
    Primitive.RECORDS: st.binary(max_size=8)
    | st.binary(max_size=8).map(bytearray)
    | st.lists(st.binary(max_size=4).map(memoryview), max_size=3).map(tuple),
}

_UNKNOWN_TAGS = st.none() | st.dictionaries(
    st.sampled_from([100, 127, 128, 16384, 2**32 - 1]), st.binary(max_size=4), max_size=3
)


@cache
def objects(cls: type[Struct], version: int, flexible: bool) -> Any:
    """A strategy for objects that can be written at `version`.

    One for all examples: Hypothesis looks at every part of a strategy that it has not seen before.
    """
    arguments = {
        field.name: _values(field, version, flexible)
        for field in cls.fields
        if field.versions.holds(version)
    }
    if flexible:
        arguments["unknown_tags"] = _UNKNOWN_TAGS
    return st.builds(cls, **arguments)


def _values(field: Field, version: int, flexible: bool) -> Any:
    if field.struct is not None:
        single = objects(field.struct, version, flexible)
    else:
        assert field.primitive is not None
        single = _PRIMITIVES[field.primitive]
    sizes = st.lists(single, max_size=3)
    if field.is_array and field.struct is None:
        sizes |= st.lists(single, min_size=31, max_size=33)
    elif field.is_array and _extreme_count(field) > 2:
        sizes |= st.lists(single, min_size=4, max_size=7)
    strategy = sizes if field.is_array else single
    if field.nullable.holds(version):
        strategy = st.none() | strategy
    if not (field.default is None and not field.nullable.holds(version)):
        strategy = st.builds(field.fresh_default) | strategy
    return strategy
