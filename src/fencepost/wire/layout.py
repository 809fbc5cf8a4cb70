"""What one struct looks like on the wire at one version: the plan that every codec follows.

A layout is made once per (struct, version, flexible). Whether a struct is flexible is decided by
the message around it, not by the struct, hence the third part of the key.

* `plain`: fields in the order of the schema, without a tag at this version;
* `tagged`: the fields with a tag at this version, in ascending order of tags, whatever the order
  in the schema (PartitionChangeRecord declares tag 8 before 6 and 7);
* `absent`: fields that do not exist at this version. A decoder gives them their default, an
  encoder refuses other values unless the field is ignorable;
* `min_size`: the fewest bytes an instance can take. A claimed count times this must fit into what
  is left of the input before anything is allocated for it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from fencepost.wire.schema import Field
from fencepost.wire.types import FIXED_CODES, Primitive

if TYPE_CHECKING:
    from fencepost.wire.message import Struct


class Slot(NamedTuple):
    """A field at one version."""

    field: Field
    is_nullable: bool
    is_compact: bool
    """Whether the field's own lengths and counts are compact, as in nearly all flexible structs."""

    layout: Layout | None
    """Layout of the field's struct, or of its array's elements when they are structs."""

    element_min_size: int
    """Fewest bytes of one element (arrays only)."""

    is_tagged: bool = False


class Layout(NamedTuple):
    """A struct at one version."""

    struct: type[Struct]
    version: int
    is_flexible: bool
    plain: tuple[Slot, ...]
    tagged: tuple[Slot, ...]
    absent: tuple[Field, ...]
    min_size: int

    @property
    def has_records(self) -> bool:
        """Whether an instance can hold records, here or further down."""
        return any(
            slot.field.primitive is Primitive.RECORDS
            or (slot.layout is not None and slot.layout.has_records)
            for slot in self.plain + self.tagged
        )

    @property
    def has_nullable_struct_in_tag(self) -> bool:
        """Whether a tagged field, here or further down, is a struct or null."""
        return any(
            slot.layout is not None
            and (
                (slot.is_tagged and slot.is_nullable and not slot.field.is_array)
                or slot.layout.has_nullable_struct_in_tag
            )
            for slot in self.plain + self.tagged
        )

    @property
    def has_weightless_elements(self) -> bool:
        """Whether an array, here or further down, can have elements that take no bytes."""
        return any(
            slot.layout.has_weightless_elements
            or (slot.field.is_array and slot.layout.min_size == 0)
            for slot in self.plain + self.tagged
            if slot.layout is not None
        )


NESTED_STRUCTS_MAX = 8
"""Structs inside of structs, the outermost counted; Kafka has come to 6.

Every level costs recursion in C and blocks inside of blocks in generated Python, which are limited.
"""


@cache
def _check_nesting(struct: type[Struct]) -> None:
    level = [struct]
    for _ in range(NESTED_STRUCTS_MAX):
        level = [field.struct for outer in level for field in outer.fields if field.struct]
        level = list(dict.fromkeys(level))
    if level:
        raise TypeError(f"{struct.__name__} nests structs more than {NESTED_STRUCTS_MAX} deep")


@cache
def layout_of(struct: type[Struct], version: int, is_flexible: bool) -> Layout:
    """The layout of `struct`; of a Message too, whose version must be one of its own.

    TypeError when structs nest too deep (or without an end), or what is tagged cannot be.
    """
    _check_nesting(struct)
    plain: list[Slot] = []
    tagged: list[Slot] = []
    absent: list[Field] = []
    for field in struct.fields:
        if not field.versions.holds(version):
            absent.append(field)
        elif field.tag is not None and field.tagged.holds(version):
            if not is_flexible:
                raise TypeError(f"{struct.__name__}.{field.name} is tagged in a plain version")
            if field.primitive is Primitive.RECORDS:
                raise TypeError(f"{struct.__name__}.{field.name}: records cannot be tagged")
            tagged.append(_slot(field, version, is_flexible)._replace(is_tagged=True))
        else:
            plain.append(_slot(field, version, is_flexible))
    tagged.sort(key=_tag)
    min_size = sum(map(_min_size, plain)) + is_flexible
    return Layout(
        struct, version, is_flexible, tuple(plain), tuple(tagged), tuple(absent), min_size
    )


def _tag(slot: Slot) -> int:
    assert slot.field.tag is not None
    return slot.field.tag


def _slot(field: Field, version: int, is_flexible: bool) -> Slot:
    layout = layout_of(field.struct, version, is_flexible) if field.struct is not None else None
    is_compact = is_flexible and field.flexible.holds(version)
    if not field.is_array:
        element_min_size = 0
    elif layout is not None:
        element_min_size = max(1, layout.min_size)
    else:
        assert field.primitive is not None
        element_min_size = _primitive_min_size(field.primitive, is_compact)
    return Slot(field, field.nullable.holds(version), is_compact, layout, element_min_size)


def _min_size(slot: Slot) -> int:
    field = slot.field
    if field.is_array:
        return 1 if slot.is_compact else 4
    if slot.layout is not None:
        return 1 if slot.is_nullable else slot.layout.min_size
    assert field.primitive is not None
    return _primitive_min_size(field.primitive, slot.is_compact)


def _primitive_min_size(primitive: Primitive, is_compact: bool) -> int:
    if primitive in FIXED_CODES:
        return FIXED_CODES[primitive][1]
    if primitive is Primitive.UUID:
        return 16
    if is_compact:
        return 1
    return 2 if primitive is Primitive.STRING else 4
