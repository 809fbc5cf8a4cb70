"""Which columns may become which, where a table takes in rows of another schema than it has.

| the table has | rows have | the table gets |
|---|---|---|
| no such column | one | the column, null in old rows |
| a column | no such one | it stays, null in new rows |
| a whole number | a wider or narrower one | the wider of both |
| `float` | `double`, or the other way | `double` |
| a `decimal` | another | as many digits before and behind the point as either has, to 38 |
| a struct | another | the fields of both by these rules; new ones are null in old rows |
| an array, a map with the same keys | another | elements or values by these rules |
| anything else | another type | refused: values would be lost, or read as others |

A field of a struct whose name differs from a known one in small and capital letters only is
refused, since Spark takes both for one; so is one that may be null where the known one may not.

Formats of tables that cannot do all of that refuse the rest (`tables.lakes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
DECIMAL_DIGITS_MAX: Final = 38
REMEDY: Final = "give the new column another name, or write to a new table"
LOSSLESS: Final = "only wider numbers and more fields lose nothing"


class ColumnChangeError(ValueError):
    """A column cannot become what rows need; the text names it, both types, and what to do."""

    def __init__(self, name: str, old: object, wanted: object, why: str, remedy: str) -> None:
        super().__init__(
            f"column {name} is {old} in the table and cannot become {wanted}: {why}; {remedy}"
        )


@dataclass(frozen=True, slots=True)
class Step:
    """A field that a table gets, or a wider type of one; in arrays `element`, in maps `value`."""

    place: tuple[str, ...]
    old: pa.DataType | None
    """None for a field that is not there."""
    wide: pa.DataType


def wider(old: pa.DataType, wanted: pa.DataType) -> pa.DataType | None:
    """The type that has all values of both; None where there is none."""
    if old == wanted:
        return old
    if old in INTEGERS and wanted in INTEGERS:
        return max(old, wanted, key=INTEGERS.index)
    if {old, wanted} == {pa.float32(), pa.float64()}:
        return pa.float64()
    if pa.types.is_decimal128(old) and pa.types.is_decimal128(wanted):
        scale = max(old.scale, wanted.scale)
        whole = max(old.precision - old.scale, wanted.precision - wanted.scale)
        if whole + scale <= DECIMAL_DIGITS_MAX:
            return pa.decimal128(whole + scale, scale)
    if pa.types.is_struct(old) and pa.types.is_struct(wanted):
        return _wider_struct(old, wanted)
    if pa.types.is_list(old) and pa.types.is_list(wanted):
        inner = _wider_field(old.value_field, wanted.value_field)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_map(old) and pa.types.is_map(wanted) and old.key_type == wanted.key_type:
        inner = _wider_field(old.item_field, wanted.item_field)
        return None if inner is None else pa.map_(old.key_field, inner)
    return None


def _wider_field(old: pa.Field, wanted: pa.Field) -> pa.Field | None:
    """A field in a struct, an array or a map that has all values of both."""
    kind = wider(old.type, wanted.type)
    if kind is None or (wanted.nullable and not old.nullable):
        return None
    return old.with_type(kind)


def _wider_struct(old: pa.StructType, wanted: pa.StructType) -> pa.DataType | None:
    asked, known = ({one.name: one for one in kind} for kind in (wanted, old))
    fields = [_wider_field(one, asked.get(one.name, one)) for one in old]
    fields += [pa.field(one.name, one.type) for one in wanted if one.name not in known]
    kept = [one for one in fields if one is not None]
    is_told_apart = len({one.name.lower() for one in kept}) == len(fields)
    return pa.struct(kept) if is_told_apart else None


def steps(name: str, old: pa.DataType, wide: pa.DataType) -> Iterator[Step]:
    """What to add and widen, one after the other, until a column of `old` is the `wide` that
    `wider` found."""
    yield from _steps((name,), old, wide)


def _steps(place: tuple[str, ...], old: pa.DataType, wide: pa.DataType) -> Iterator[Step]:
    if pa.types.is_struct(wide):
        known = {one.name: one.type for one in old}
        for one in wide:
            if one.name in known:
                yield from _steps((*place, one.name), known[one.name], one.type)
            else:
                yield Step((*place, one.name), None, one.type)
    elif pa.types.is_list(wide):
        yield from _steps((*place, "element"), old.value_type, wide.value_type)
    elif pa.types.is_map(wide):
        yield from _steps((*place, "value"), old.item_type, wide.item_type)
    elif old != wide:
        yield Step(place, old, wide)


def evolved(old: pa.Schema, wanted: pa.Schema, remedy: str = REMEDY) -> pa.Schema:
    """The columns of a table that takes rows of other columns in; see the module.
    ColumnChangeError."""
    fields = []
    for field in old:
        index = wanted.get_field_index(field.name)
        kind = field.type
        if index >= 0:
            kind = widened(field.name, kind, wanted.field(index).type, remedy)
        fields.append(pa.field(field.name, kind))
    known = set(old.names)
    fields += [pa.field(one.name, one.type) for one in wanted if one.name not in known]
    return pa.schema(fields)


def widened(name: str, old: pa.DataType, wanted: pa.DataType, remedy: str = REMEDY) -> pa.DataType:
    """The type of a column that has values of both. ColumnChangeError."""
    found = wider(old, wanted)
    if found is None:
        raise ColumnChangeError(name, old, wanted, LOSSLESS, remedy)
    return found


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table as another schema has it: missing columns and fields are null, narrower types
    widened."""
    arrays = []
    for field in schema:
        if field.name in table.schema.names:
            chunks = [_fitted(one, field.type) for one in table.column(field.name).chunks]
            arrays.append(pa.chunked_array(chunks, field.type))
        else:
            arrays.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
    return pa.Table.from_arrays(arrays, schema=schema)


def _fitted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values as another type has them. Before PyArrow 19 `cast` adds no fields to structs."""
    if array.type == kind:
        return array
    is_list, is_map = (is_kind(array.type) for is_kind in (pa.types.is_list, pa.types.is_map))
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        known = {one.name: array.field(number) for number, one in enumerate(array.type)}
        children = [
            _fitted(known[one.name], one.type)
            if one.name in known
            else pa.nulls(len(array), one.type)
            for one in kind
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if (is_list and pa.types.is_list(kind)) or (is_map and pa.types.is_map(kind)):
        inner = kind.value_type if is_list else pa.struct([kind.key_field, kind.item_field])
        children = [_fitted(array.values, inner)]
        own = array.buffers()[:2]  # which values are null, and where the next one begins
        length, offset = len(array), array.offset
        return pa.Array.from_buffers(kind, length, own, offset=offset, children=children)
    return array.cast(kind)
