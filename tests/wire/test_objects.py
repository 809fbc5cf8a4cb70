"""Objects of messages live and die like any others, also where C makes and frees them."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import tracemalloc
import weakref
from typing import Any

import pytest

from fencepost.wire.api.metadata import MetadataResponse
from fencepost.wire.errors import DecodeError, WireError
from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import Int32, Int64, String

from .catalogue import CODECS, MESSAGES, codec, extreme
from .every_version import at
from .samples import Leaf, Point, Sample


def note_end(self: Any) -> None:
    self.released.append(self.note)


# Against the rules, but nothing prevents code from bypassing the metaclass.
Derived: Any = type.__new__(
    type(Point),
    "Derived",
    (Point,),
    {"__slots__": ("__dict__", "__weakref__"), "__del__": note_end, "released": []},
)


class Finalized(Struct):
    """A struct with a finalizer, which may bring it back to life."""

    number: Int32 = field()

    kept: list[Any] = []  # noqa: RUF012 - shared on purpose

    def __del__(self) -> None:
        self.kept.append(self)


class Holder(Message, kind="data", versions="0"):
    """Something to decode a finalized struct with."""

    inner: Finalized = field()


class Offsets(Message, kind="data", versions="0"):
    """Numbers alone."""

    small: list[Int32] = field()
    large: list[Int64] = field()
    name: String = field()


@pytest.fixture(params=sorted(CODECS), autouse=True)
def used(request: pytest.FixtureRequest) -> str:
    """A backend whose plans for the classes of this module have been made."""
    name: str = request.param
    for version in range(4):
        codec(name, Sample, version)
    codec(name, Holder, 0)
    codec(name, MetadataResponse, 12)
    return name


def test_few_of_the_structs_that_are_released_are_kept_for_later(used: str):
    machine = codec(used, Sample, 0)
    encoded = machine.encode(Sample(points=[Point(x=5) for _ in range(50_000)]))
    tracemalloc.start()
    try:
        message = machine.decode(encoded)
        there = tracemalloc.get_traced_memory()[0]
        del message
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert there > 2_000_000
    assert left < 200_000


class Marker:
    """Something whose death can be seen."""


def test_values_go_with_the_object():
    marker: Any = Marker()
    gone = weakref.ref(marker)
    point = Point(x=marker, y=1)
    point.unknown_tags = {1: marker}
    del marker
    assert gone() is not None
    del point
    assert gone() is None


def test_cycles_are_collected():
    marker: Any = Marker()
    gone = weakref.ref(marker)
    leaf: Any = Leaf()
    leaf.name = [leaf, marker]
    del leaf, marker
    assert gone() is not None
    gc.collect()
    assert gone() is None


def test_decoded_objects_are_known_to_the_collector(used: str):
    machine = codec(used, Sample, 3)
    message = machine.decode(machine.encode(Sample(points=[Point(x=1)], leaf=Leaf(name="a"))))
    for one in (message, message.points[0], message.leaf, message.early):
        assert gc.is_tracked(one)
    marker: Any = Marker()
    gone = weakref.ref(marker)
    message.early.name = [message, marker]
    del message, one, marker
    gc.collect()
    assert gone() is None


def test_a_long_chain_is_released_without_running_out_of_stack():
    chain: Any = None
    for _ in range(200_000):
        link: Any = Point()
        link.x = chain
        chain = link
    del link
    marker: Any = Marker()
    gone = weakref.ref(marker)
    chain.y = marker
    del marker
    del chain
    assert gone() is None


def test_a_derived_class_keeps_its_dict_and_its_finalizer():
    marker: Any = Marker()
    gone = weakref.ref(marker)
    before = sys.getrefcount(Derived)
    for number in range(100):
        point = object.__new__(Derived)
        point.x = marker
        point.note = f"number {number}"
        point.marker = marker
    assert len(Derived.released) == 99
    del point, marker
    assert Derived.released.pop() == "number 99"
    assert gone() is None
    assert abs(sys.getrefcount(Derived) - before) < 10
    Derived.released.clear()


def test_a_finalizer_may_bring_a_struct_back(used: str):
    machine = codec(used, Holder, 0)
    holder = machine.decode(bytes([0, 0, 0, 42]))
    del holder
    (back,) = Finalized.kept
    assert back.number == 42
    back.number = 43
    assert Finalized.kept.pop() is back
    before = sys.getrefcount(Finalized)
    del back  # its finalizer has run once and does not run again
    assert not Finalized.kept
    assert sys.getrefcount(Finalized) == before - 1


def test_references_are_balanced(used: str):
    """Decode, encode and fail many times; neither classes nor shared values gain or lose any."""
    machine = codec(used, Sample, 3)
    message = Sample(
        points=[Point(x=n) for n in range(20)], numbers=[1, 1000, -7], leaf=Leaf(), late="none"
    )
    data = machine.encode(message)
    watched: list[Any] = [None, True, 7, 1000, "", "none", Sample, Point, Leaf, message]

    def work() -> None:
        for _ in range(300):
            machine.encode(machine.decode(data))
            for cut in (0, 5, len(data) // 2, len(data) - 1):
                with pytest.raises(WireError):
                    machine.decode(data[:cut])
            message.points[3].x = 1 << 40
            with pytest.raises(WireError):
                machine.encode(message)
            message.points[3].x = 3

    work()
    before = [sys.getrefcount(value) for value in watched]
    work()
    after = [sys.getrefcount(value) for value in watched]
    assert [abs(one - two) < 100 for one, two in zip(before, after)] == [True] * len(watched)


def test_numbers_of_every_size_come_back(used: str):
    machine = codec(used, Offsets, 0)
    edges = {
        sign * (1 << bits) + more for bits in range(63) for sign in (1, -1) for more in (-1, 0, 1)
    }
    message = Offsets(
        small=sorted(number for number in edges if -(1 << 31) <= number < 1 << 31),
        large=[*sorted(edges), (1 << 63) - 1, -(1 << 63)],
        name="n",
    )
    for _ in range(2):
        assert machine.decode(machine.encode(message)) == message


@pytest.mark.parametrize("text", ["", "a", "ab", "a" * 8, "abcdefgé", "é", "abcdefghijé", "€" * 9])
def test_texts_of_every_kind_come_back(used: str, text: str):
    machine = codec(used, Offsets, 0)
    assert machine.decode(machine.encode(Offsets(name=text))).name == text


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 16, 20])
def test_a_byte_that_is_no_text_is_noticed_wherever_it_stands(used: str, size: int):
    machine = codec(used, Offsets, 0)
    data = machine.encode(Offsets(name="a" * size))
    begin = data.index(b"a" * size)
    for place in range(begin, begin + size):
        with pytest.raises(DecodeError, match="UTF-8"):
            machine.decode(data[:place] + b"\x80" + data[place + 1 :])


def test_every_message_can_be_copied_and_pickled(used: str):
    for cls in MESSAGES:
        with at(cls.max_version, cls):
            assert_copied_and_pickled(used, cls, cls.max_version)


def assert_copied_and_pickled(used: str, cls: type[Message], version: int):
    machine = codec(used, cls, version)
    data = machine.encode(extreme(cls, version, cls.is_flexible(version), most=True))
    message = machine.decode(data)
    pickled = [pickle.dumps(message, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    again = [pickle.loads(one) for one in pickled]
    for twin in (copy.copy(message), copy.deepcopy(message), *again):
        assert type(twin) is cls
        assert twin == message
        assert twin.unknown_tags == message.unknown_tags
        assert machine.encode(twin) == data


def test_records_are_shared_by_copies_and_bytes_in_deep_ones(used: str):
    machine = codec(used, Sample, 3)
    message = machine.decode(machine.encode(Sample(content=bytes(100))))
    assert type(message.content) is memoryview
    assert copy.copy(message).content is message.content
    for twin in (copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert type(twin.content) is bytes
        assert twin == message
    message.content = (memoryview(b"ab"), b"c")
    for twin in (copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert twin.content == [b"ab", b"c"]
        assert machine.encode(twin) == machine.encode(message)
    message.points = [Point(x=1)]
    copy.deepcopy(message).points[0].x = 2
    assert message.points[0].x == 1
    del message.label
    assert not hasattr(copy.copy(message), "label")
    assert not hasattr(copy.deepcopy(message), "label")


def test_copies_and_pickles(used: str):
    machine = codec(used, Sample, 3)
    message = machine.decode(machine.encode(Sample(points=[Point(x=1)], leaf=Leaf(name="a"))))
    message.content = b""
    for again in (copy.copy(message), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert again == message
