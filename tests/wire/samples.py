"""Small message classes with one of everything, for tests of the framework itself."""

from __future__ import annotations

from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import (
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    UInt16,
    UInt32,
    Uuid,
)


class Point(Struct):
    """Fixed size, so that arrays of it have a simple least size."""

    x: Int32 = field(doc="Left to right.")
    y: Int32 = field("1+", default=-1, ignorable=True, doc="Bottom to top.")


class Leaf(Struct):
    """A struct with a string and a tag."""

    name: String = field()
    weight: Int64 = field("2+", tag=0, default=-1)


class Sample(Message, kind="data", versions="0-3", flexible="2+"):
    """Plain in versions 0 and 1, flexible in 2 and 3."""

    small: Int8 = field()
    port: UInt16 = field("1+", ignorable=True)
    points: list[Point] = field()
    label: String | None = field(nullable="1+", default="")
    numbers: list[Int32] | None = field("1+", default=None)
    names: list[String] = field("1+", ignorable=True)
    leaf: Leaf | None = field("3+", default=None)
    blob: Bytes = field("2+")
    content: Records | None = field("2+", default=None)
    late: String = field("3+", tag=4, default="none")
    early: Leaf = field("2+", tag=1)
    middle: list[Int16] | None = field("2+", tag=2, default=None)


class Primitives(Message, kind="data", versions="0-1", flexible="1+"):
    """Every primitive type once."""

    int8: Int8 = field()
    int16: Int16 = field()
    int32: Int32 = field()
    int64: Int64 = field()
    uint16: UInt16 = field()
    uint32: UInt32 = field()
    float64: Float64 = field()
    boolean: Bool = field()
    uuid: Uuid = field()
    string: String = field()
    data: Bytes = field()
    records: Records = field()


class Precise(Message, kind="data", versions="0", flexible="0+"):
    """A number that is left out only when it is the default to the last bit."""

    ratio: Float64 = field(tag=0, default=1.0)


class ManyTags(Message, kind="data", versions="0", flexible="0+"):
    """More tagged fields than an int has bits."""

    vars().update(
        __annotations__=dict.fromkeys((f"tagged{tag}" for tag in range(40)), "Int8"),
        **{f"tagged{tag}": field(tag=tag) for tag in range(40)},
    )


class Arrays(Message, kind="data", versions="0-1", flexible="1+"):
    """An array of each kind of element."""

    int8s: list[Int8] = field()
    int64s: list[Int64] = field()
    uuids: list[Uuid] = field()
    booleans: list[Bool] = field()
    blobs: list[Bytes] = field()
    leaves: list[Leaf] = field(nullable=None)
