"""What the compiled codec keeps of earlier messages for later ones never shows in either."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest

from fencepost.wire.errors import DecodeError
from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import Int8, Int16, Int32, Int64, String

from .catalogue import CODECS, codec
from .samples import Leaf, Sample


class Row(Message, kind="data", versions="0"):
    """Integers of every size, the short ones last."""

    far: list[Int64] = field()
    texts: list[String] = field()
    int64: Int64 = field()
    int32: Int32 = field()
    int16: Int16 = field()
    int8: Int8 = field()


class One(Message, kind="data", versions="0"):
    """An integer and nothing behind it."""

    int64: Int64 = field()


class Wide(Struct):
    """More slots than the objects have that are kept when they are released."""

    vars().update(
        __annotations__=dict.fromkeys((f"column{n}" for n in range(40)), "Int32"),
        **{f"column{n}": field(default=1000 + n) for n in range(40)},
    )


class Roomy(Struct):
    """A struct that has more than its fields, so that Python itself makes and releases it."""

    __slots__ = ("__dict__", "__weakref__", "aside", "number")

    number: Int32 = field(default=7)


class Defaults(Message, kind="data", versions="0-1", flexible="0+"):
    """Structs that are absent, in the tagged section or in the version."""

    wide: Wide = field(tag=0)
    roomy: Roomy = field(tag=1)
    leaf: Leaf = field("1+", ignorable=True)
    rows: list[Roomy] = field()


@pytest.fixture(params=sorted(CODECS))
def used(request: pytest.FixtureRequest) -> str:
    """The name of a backend."""
    name: str = request.param
    return name


def of_digits(draw: random.Random) -> int:
    """A number of 64 bits or fewer: as many have ten bits as have sixty."""
    bits = draw.randrange(64)
    return draw.choice((1, -1)) * draw.getrandbits(bits)


def test_numbers_of_a_message_stay_when_others_are_read(used: str):
    """Thousands of numbers share each place where the latest is kept."""
    machine = codec(used, Row, 0)
    draw = random.Random(1)
    rows = [[of_digits(draw) for _ in range(500)] for _ in range(40)]
    read: list[Any] = []
    for number, row in enumerate(rows):
        read.append(machine.decode(machine.encode(Row(far=row))))
        if number % 3:  # some are gone before the next is read
            read.pop()
    assert [message.far for message in read] == rows[::3]
    for row in rows:
        assert machine.decode(machine.encode(Row(far=row))).far == row


def test_a_number_that_is_referenced_never_changes(used: str):
    machine = codec(used, Row, 0)
    draw = random.Random(2)
    held = [1 << 40 | draw.getrandbits(39) for _ in range(2_000)]
    said = [str(number) for number in held]
    kept = [machine.decode(machine.encode(Row(int64=number))).int64 for number in held]
    for _ in range(2_000):
        machine.decode(machine.encode(Row(int64=1 << 40 | draw.getrandbits(39))))
    assert [str(number) for number in kept] == said


def test_numbers_at_the_end_of_the_bytes(used: str):
    """An integer is read the same where less than eight bytes are left."""
    machine = codec(used, Row, 0)
    for sign in (1, -1):
        row = Row(int64=sign << 62, int32=sign << 30, int16=sign << 14, int8=sign << 6)
        data = machine.encode(row)
        assert machine.decode(data) == row
        for size in range(len(data)):
            with pytest.raises(DecodeError):
                machine.read(data[:size], 0)
    machine = codec(used, One, 0)
    for size in range(8):
        with pytest.raises(DecodeError):
            machine.read(bytes(size), 0)


def test_texts_of_a_message_stay_when_others_are_read(used: str):
    """Of all lengths, and alike but for one character somewhere."""
    machine = codec(used, Row, 0)
    draw = random.Random(3)
    rows = []
    for _ in range(40):
        texts = []
        for _ in range(200):
            size = draw.randrange(70)
            place = draw.randrange(size + 1)
            texts.append("a" * place + draw.choice("bcdé€") + "a" * (size - place))
        rows.append(texts)
    read = [machine.decode(machine.encode(Row(texts=texts))) for texts in rows]
    assert [message.texts for message in read] == rows
    assert {type(text) for message in read for text in message.texts} == {str}


ALIKE = [
    ("ab", "\0ab"),
    ("abcdefgh", "abcdefgh" + 8 * "\0"),
    (24 * "a", "`" + 8 * "a" + "c" + 14 * "a"),
]
"""Texts that `fpost_text_of` takes for one another if it looks at their hashes alone."""


@pytest.mark.parametrize("pair", [*ALIKE, *(pair[::-1] for pair in ALIKE)])
def test_texts_whose_hashes_are_the_same(used: str, pair: tuple[str, str]):
    machine = codec(used, Row, 0)
    for _ in range(3):
        for text in pair:
            for _ in range(3):
                assert machine.decode(machine.encode(Row(texts=[text]))).texts == [text]


def test_a_text_that_comes_again_is_the_same_object():
    if "c" not in CODECS:
        pytest.skip("only the compiled codec keeps texts")
    machine = codec("c", Row, 0)
    for text in ("a topic", "a topic of more than sixteen letters", "t" * 64):
        data = machine.encode(Row(texts=[text]))
        machine.decode(data)
        first, second = machine.decode(data), machine.decode(data)
        assert first.texts[0] is second.texts[0]
    data = machine.encode(Row(texts=["t" * 65]))
    machine.decode(data)
    first, second = machine.decode(data), machine.decode(data)
    assert first.texts[0] is not second.texts[0]


def test_texts_that_come_once_do_not_displace_one_that_comes_often():
    if "c" not in CODECS:
        pytest.skip("only the compiled codec keeps texts")
    machine = codec("c", Row, 0)
    data = machine.encode(Row(texts=["often"]))
    machine.decode(data)
    first = machine.decode(data)
    machine.decode(machine.encode(Row(texts=[f"once {n}" for n in range(5_000)])))
    assert machine.decode(data).texts[0] is first.texts[0]


@pytest.mark.parametrize(
    "texts", [{"long" * n for n in range(99, 3_000)}, set(map(str, range(10**5)))]
)
def test_few_texts_are_kept_and_no_long_ones(used: str, texts: set[str]):
    machine = codec(used, Row, 0)
    data = machine.encode(Row(texts=[text for text in texts for _ in range(2)]))
    machine.decode(data)
    tracemalloc.start()
    try:
        message = machine.decode(data)
        there = tracemalloc.get_traced_memory()[0]
        del message
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert there > 5_000_000
    assert left < 100_000


@pytest.mark.parametrize("version", [0, 1])
def test_every_message_has_default_structs_of_its_own(used: str, version: int):
    machine = codec(used, Defaults, version)
    data = machine.encode(Defaults())
    for _ in range(3):
        one, other = machine.decode(data), machine.decode(data)
        assert one == other == Defaults()
        one.wide.column7 = one.roomy.number = 9
        one.leaf.name = "one"
        assert other == Defaults()
        assert machine.decode(data) == Defaults()
        assert one.wide.column39 == 1039


def test_structs_with_more_than_their_fields(used: str):
    machine = codec(used, Defaults, 1)
    message = machine.decode(machine.encode(Defaults(rows=[Roomy(number=n) for n in range(5)])))
    assert [row.number for row in message.rows] == list(range(5))
    message.rows[0].note = "more"
    assert message.rows[0].__dict__ == {"note": "more"}
    assert not message.rows[1].__dict__


def test_a_struct_is_of_its_class_whatever_lay_there_before(used: str):
    """Released objects of one size serve all classes of that size."""
    points = codec(used, Sample, 3)
    wide = codec(used, Defaults, 1)
    leaves = points.encode(Sample(leaf=Leaf(name="leaf")))
    for _ in range(50):
        message = points.decode(leaves)
        assert type(message.leaf) is type(message.early) is Leaf
        del message
        assert type(wide.decode(wide.encode(Defaults())).roomy) is Roomy
