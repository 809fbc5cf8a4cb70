"""Which columns may become which, where a table takes in rows of another schema than it has.

| the table has | rows have | the table gets |
|---|---|---|
| no such column | one | the column, null in old rows |
| a column | no such one | it stays, null in new rows |
| a whole number | a wider or narrower one | the wider of both |
| `float` | `double`, or the other way | `double` |
| a `decimal` | another | as many digits before and behind the point as either has, to 38 |
| anything else | another type | refused: values would be lost, or read as others |

Formats of tables that cannot do all of that refuse the rest (`tables.lakes`).
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
DECIMAL_DIGITS_MAX: Final = 38
REMEDY: Final = "give the new column another name, or write to a new table"


class ColumnChangeError(ValueError):
    """A column cannot become what rows need; the text names it, both types, and what to do."""

    def __init__(self, name: str, old: object, wanted: object, why: str, remedy: str) -> None:
        super().__init__(
            f"column {name} is {old} in the table and cannot become {wanted}: {why}; {remedy}"
        )


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
    return None


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
        raise ColumnChangeError(name, old, wanted, "only wider numbers lose nothing", remedy)
    return found


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table as another schema has it: missing columns are null, narrower types widened."""
    arrays = []
    for field in schema:
        if field.name in table.schema.names:
            arrays.append(table.column(field.name).cast(field.type))
        else:
            arrays.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
    return pa.Table.from_arrays(arrays, schema=schema)
