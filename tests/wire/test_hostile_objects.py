"""Objects that are not what they seem: what is written is whole and right, or an EncodeError.

Values of a message may be of anybody's classes, whose methods run while it is being encoded, and
other threads may get at them meanwhile.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from fencepost.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from fencepost.wire.api.heartbeat import HeartbeatRequest
from fencepost.wire.errors import DecodeError, EncodeError, TooManyElementsError
from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import Bool, Bytes, Float64, Int32, Records, Uuid

from .samples import Arrays, Leaf, Point, Primitives, Sample

pytestmark = pytest.mark.usefixtures("on_backend")


class Inner(Struct):
    """Records inside of what may be tagged."""

    number: Int32 = field()
    content: Records = field()


class Outer(Message, kind="data", versions="0", flexible="0+"):
    """Records in tagged structs, alone and in arrays."""

    one: Inner = field(tag=0)
    more: list[Inner] = field(tag=1)
    number: Int32 = field()


class Late(Message, kind="data", versions="0-1", flexible="1+"):
    """Everything whose absence has to be judged."""

    number: Int32 = field()
    content: Records = field("1+")
    blob: Bytes = field("1+")
    flag: Bool = field("1+")
    ratio: Float64 = field("1+", tag=0)


# Code that runs while a message is written


def test_unknown_tags_that_delete_themselves():
    class Tags(dict[int, bytes]):
        def __bool__(self) -> bool:
            del message.unknown_tags
            return True

    message = HeartbeatRequest(unknown_tags=Tags({7: b""}))
    with pytest.raises(EncodeError, match="unknown_tags"):
        message.encode(4)


@pytest.mark.parametrize("name", ["unknown_tags", "generation_id", "group_id", "member_id"])
def test_a_number_that_deletes_a_field(name):
    class Number:
        def __index__(self) -> int:
            if hasattr(message, name):
                delattr(message, name)
            return 1

    message: Any = HeartbeatRequest(
        group_id="group", generation_id=Number(), unknown_tags={7: b"x" * 100}
    )
    with contextlib.suppress(EncodeError):  # what was written before its number may go
        message.encode(4)
    with pytest.raises(EncodeError, match="was never set"):
        message.encode(4)


@pytest.mark.parametrize("change", ["append", "pop", "clear"])
@pytest.mark.parametrize("tail", [0, 40])
def test_lists_that_change_while_they_are_written(change, tail):
    class Number:
        def __index__(self) -> int:
            changed.append(changed[-1]) if change == "append" else getattr(changed, change)()
            return 1

    number: Any = Number()
    changed: Any = [number, *([2] * tail)]
    with pytest.raises(EncodeError):
        Sample(numbers=changed).encode(1)
    changed = [Point(x=number), *(Point() for _ in range(tail))]
    with pytest.raises(EncodeError):
        Sample(points=changed).encode(1)


# Records in tagged structs


@pytest.mark.parametrize("size", [0, 1, 5000, 100_000])
def test_records_inside_of_tags_come_back(size):
    inner = Inner(number=1, content=b"R" * size)
    for message in (
        Outer(one=inner, number=5),
        Outer(more=[inner, inner], number=5),
        Outer(one=inner, more=[inner], number=5, unknown_tags={3: b"x" * 300}),
    ):
        encoded = message.encode(0)
        assert Outer.decode(encoded, 0) == message
        assert b"".join(message.encode_parts(0)) == encoded


# Derived classes are what they hold


class Rows(list[Any]):
    """A list whose methods say anything."""

    def __len__(self) -> int:
        return 1 << 40

    def __iter__(self) -> Any:
        raise ValueError("no")

    def __getitem__(self, index: Any) -> Any:
        raise ValueError("no")


class Row(tuple[Any, ...]):
    __slots__ = ()
    __len__ = Rows.__len__
    __iter__ = Rows.__iter__
    __getitem__ = Rows.__getitem__  # type: ignore[assignment]


class Text(str):
    __slots__ = ()

    def encode(self, *_: Any) -> bytes:  # type: ignore[override]
        return b"something else"


class Raw(bytes):
    def __bytes__(self) -> bytes:
        return b"something else"

    def __len__(self) -> int:
        return 3


class Wandering(bytearray):
    """Sixteen bytes when it is asked first, two from then on."""

    asked = 0

    def __bytes__(self) -> bytes:
        self.asked += 1
        return b"x" * (16 if self.asked == 1 else 2)


@pytest.mark.parametrize("rows", [Rows, Row])
def test_lists_of_other_classes_are_their_elements(rows):
    number, element = [1, 2, 3], [Point(x=1), Point(x=2)]
    odd = Sample(numbers=rows(number), points=rows(element), names=rows(["a", "b"]))
    plain = Sample(numbers=number, points=element, names=["a", "b"])
    assert odd.encode(3) == plain.encode(3)
    assert Sample(content=rows([b"ab", b"c"])).encode(3) == Sample(content=b"abc").encode(3)
    assert Arrays(uuids=rows([Uuid.ZERO]), booleans=rows([True])).encode(1) == (
        Arrays(uuids=[Uuid.ZERO], booleans=[True]).encode(1)
    )


def test_text_and_bytes_of_other_classes_are_their_content():
    odd = Sample(label=Text("é"), blob=Raw(b"four"), content=Raw(b"five!"))
    plain = Sample(label="é", blob=b"four", content=b"five!")
    assert odd.encode(3) == plain.encode(3)
    assert b"".join(odd.encode_parts(3)) == plain.encode(3)
    assert sum(map(len, odd.encode_parts(3))) == len(plain.encode(3))
    uuid: Any = Wandering(bytes(range(16)))
    assert Primitives(uuid=uuid).encode(0) == Primitives(uuid=Uuid(bytes(range(16)))).encode(0)
    short: Any = Wandering(b"xy")
    with pytest.raises(EncodeError, match="uuid"):
        Primitives(uuid=short).encode(0)


def test_what_can_be_encoded_is_no_text():
    class Encodable:
        def encode(self) -> bytes:
            return b"text"

    label: Any = Encodable()
    with pytest.raises(EncodeError, match="label: must be a str"):
        Sample(label=label).encode(1)


def test_a_view_keeps_its_bytes_while_they_are_on_their_way():
    content = bytearray(b"x" * 10_000)
    parts = Sample(content=content).encode_parts(3)
    with pytest.raises(BufferError):
        content.append(1)
    assert b"".join(parts) == Sample(content=bytes(content)).encode(3)


def test_a_view_released_behind_its_back():
    class Number:
        def __index__(self) -> int:
            view.release()
            return 1

    class Behind(Message, kind="data", versions="0"):
        content: Records = field()
        number: Int32 = field()

    view = memoryview(bytes(100_000))
    number: Any = Number()
    Behind.fields  # noqa: B018 - declared here, resolved here
    with pytest.raises(EncodeError):
        Behind(content=view, number=number).encode(0)


# Nothing but EncodeError leaves an encoder


class Stubborn:
    """Raises what it was made with, whatever is asked."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def fail(self, *_: Any) -> Any:
        raise self.error

    __index__ = __eq__ = __ne__ = __bool__ = __len__ = __iter__ = fail  # type: ignore[assignment]
    __float__ = __hash__ = __getitem__ = fail  # type: ignore[assignment]


class Boom(Exception):
    def __repr__(self) -> str:
        raise ValueError("not even this")


def released() -> Any:
    view = memoryview(bytes(16))
    view.release()
    return view


class Index:
    """A number too large for any field, which cannot be compared."""

    def __index__(self) -> int:
        return 1 << 80


ODD = [
    10**5000,
    -(10**5000),
    Index(),
    released(),
    Stubborn(ValueError("no")),
    Stubborn(Boom()),
    Stubborn(RecursionError()),
    [10**5000],
    [Index()],
    {10**5000: b""},
    {Index(): b""},
    memoryview(bytes(32))[::2],
    float("nan"),
    [[]],
    "\ud800",
]


@pytest.mark.parametrize("cls", [Sample, Primitives, Arrays, Leaf, Late])
def test_values_of_every_kind_in_every_field(cls):
    for name in [*(entry.name for entry in cls.fields), "unknown_tags"]:
        for value in ODD:
            struct: Any = cls()
            setattr(struct, name, value)
            message = struct if isinstance(struct, Message) else Sample(early=struct)
            top: Any = type(message)
            for version in range(top.min_version, top.max_version + 1):
                for encode in (message.encode, message.encode_parts):
                    with contextlib.suppress(EncodeError):
                        encode(version)


def test_errors_say_which_number():
    with pytest.raises(EncodeError, match=r"^small: a number of 16610 bits does not fit into int8"):
        Sample(small=10**5000).encode(0)
    with pytest.raises(EncodeError, match="unknown_tags: a number of 16610 bits is not a tag"):
        Sample(unknown_tags={10**5000: b""}).encode(3)


def test_memory_errors_stay_what_they_are():
    number: Any = Stubborn(MemoryError())
    with pytest.raises(MemoryError):
        Sample(small=number).encode(0)


# Positions and limits


def test_positions_and_limits_out_of_range():
    assert ApiVersionsRequest.read(b"", 0, 0)[1] == 0
    for pos in (1, 5, 1 << 70):
        with pytest.raises(DecodeError, match="behind the end"):
            ApiVersionsRequest.read(b"", pos, 0)
    assert ApiVersionsRequest.read(b"", 0, 0, max_elements=1 << 70)[1] == 0
    assert ApiVersionsRequest.decode(b"", 0, max_elements=1 << 70) == ApiVersionsRequest()
    for wrong in (-1, -(1 << 70)):
        with pytest.raises(ValueError, match="max_elements is negative"):
            ApiVersionsRequest.read(b"", 0, 0, max_elements=wrong)
        with pytest.raises(ValueError, match="max_elements is negative"):
            ApiVersionsRequest.decode(b"", 0, max_elements=wrong)
        with pytest.raises(ValueError, match="pos is negative"):
            ApiVersionsRequest.read(b"", wrong, 0)


def test_an_array_fits_into_its_tag_before_it_is_counted():
    data = bytes.fromhex("0000 01 00000000 01 00 01 03" + "00" * 16)
    with pytest.raises(DecodeError) as caught:
        ApiVersionsResponse.decode(data, 3, max_elements=1)
    assert not isinstance(caught.value, TooManyElementsError)


def test_a_tagged_float_keeps_its_sign():
    message = Late(ratio=-0.0)
    assert str(Late.decode(message.encode(1), 1).ratio) == "-0.0"
    assert len(Late().encode(1)) < len(message.encode(1))
    with pytest.raises(EncodeError, match="ratio"):
        message.encode(0)


def test_a_codec_is_not_made_without_a_layout():
    machine = type(ApiVersionsRequest._codecs[0])
    try:
        bare = machine.__new__(machine)
    except TypeError:
        return
    with pytest.raises(AttributeError):
        bare.decode(b"")
