"""What tells two states of a machine apart, and what does not."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from msgspec import Struct

from fencepost.machines.canonical import canonical
from fencepost.wire.types import Uuid


class Part:
    """A part of a machine, which knows another one."""

    NOT_STATE: ClassVar = frozenset(("asked",))
    __slots__ = ("asked", "other", "seen")

    def __init__(self, seen: Any, other: Any = None) -> None:
        self.asked = 0
        self.seen = seen
        self.other = other


class LaterPart(Part):
    """The same with a field more, and one less that counts."""

    NOT_STATE: ClassVar = frozenset(("other",))

    def __init__(self, seen: Any, other: Any = None) -> None:
        super().__init__(seen, other)
        self.more = 1


class Changing(Struct):
    """A value that changes."""

    offset: int


for each in (Part, LaterPart, Changing):
    each.__module__ = "fencepost.tests"


def test_a_field_counts_unless_its_class_says_otherwise() -> None:
    one, other = Part(1), Part(1)
    other.asked = 5
    assert canonical(one) == canonical(other)
    other.seen = 2
    assert canonical(one) != canonical(other)
    assert canonical(one, but=frozenset(("seen",))) == canonical(other, but=frozenset(("seen",)))


def test_a_class_leaves_out_what_those_it_is_derived_from_do() -> None:
    one, other = LaterPart(1, other="a"), LaterPart(1, other="b")
    other.asked = 5
    assert canonical(one) == canonical(other)
    other.more = 2
    assert canonical(one) != canonical(other)


def test_parts_may_know_each_other() -> None:
    def pair(knows_itself: bool) -> Part:
        first = Part(1)
        second = Part(1, first)
        first.other = first if knows_itself else second
        return first

    assert canonical(pair(False)) == canonical(pair(False))
    assert canonical(pair(True)) != canonical(pair(False))


def test_equal_values_are_one_whether_or_not_they_are_the_same_object() -> None:
    shared = Uuid(bytes(16))
    assert canonical([shared, shared]) == canonical([Uuid(bytes(16)), Uuid(bytes(16))])


def test_what_changes_is_read_and_not_hashed() -> None:
    value = Part([Changing(1)])
    before = canonical(value)
    value.seen[0].offset = 2
    assert canonical(value) != before


def test_the_order_of_dictionaries_counts_where_a_machine_goes_by_it() -> None:
    one, other = {1: "a", 2: "b"}, {2: "b", 1: "a"}
    assert canonical(one) != canonical(other)
    assert canonical(one, is_ordered=False) == canonical(other, is_ordered=False)
    assert canonical({3, 1}) == canonical({1, 3})


def test_functions_must_be_named_as_what_is_no_state() -> None:
    with pytest.raises(TypeError, match="neither state nor named in NOT_STATE"):
        canonical(Part(lambda: 1))
