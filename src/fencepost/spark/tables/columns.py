"""Columns of a table, and how a table takes in other ones.

A column is added when the schema that is asked for has one more, widened where every old value
fits the new type (`int` to `long`, `float` to `double`, more digits of a decimal), and stays, null
in new rows, when it is not asked for any more. Other changes are refused.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fencepost.spark.tables.errors import TableError
from fencepost.spark.tables.values import converter

OWN: Final = pa.schema(
    [
        pa.field("__key", pa.binary()),
        pa.field("__deleted", pa.bool_()),
        pa.field("__op", pa.string()),
        pa.field("__generation", pa.int32()),
        pa.field("__partition", pa.int32()),
        pa.field("__offset", pa.int64()),
        pa.field("__timestamp_ms", pa.int64()),
        pa.field("__lineage", pa.string()),
        pa.field("__position", pa.binary()),
    ]
)
"""What a table keeps of each row beside its columns."""
_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def evolved(old: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """The columns of a table that takes rows of other columns in; see the module. TableError."""
    fields = []
    for field in old:
        index = wanted.get_field_index(field.name)
        kind = field.type if index < 0 else _wider(field.name, field.type, wanted.field(index).type)
        fields.append(pa.field(field.name, kind))
    known = set(old.names)
    fields += [pa.field(one.name, one.type) for one in wanted if one.name not in known]
    return pa.schema(fields)


def require_usable(schema: pa.Schema, key: tuple[str, ...]) -> None:
    """TableError for columns that no table can have."""
    if len(set(map(str.lower, schema.names))) != len(schema.names):
        raise TableError(f"columns {', '.join(schema.names)}: a name is there twice")
    for field in schema:
        if field.name.startswith("__"):
            raise TableError(f"column {field.name}: names that begin with __ are the table's own")
        converter(field.type)
    for name in key:
        if name not in schema.names:
            raise TableError(f"key column {name} is not in the schema ({', '.join(schema.names)})")


def _wider(name: str, old: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """The type that has all values of both. TableError where a column cannot change so."""
    if old == wanted:
        return old
    if old in _INTEGERS and wanted in _INTEGERS:
        return max(old, wanted, key=_INTEGERS.index)
    if {old, wanted} == {pa.float32(), pa.float64()}:
        return pa.float64()
    if pa.types.is_decimal128(old) and pa.types.is_decimal128(wanted):
        scale = max(old.scale, wanted.scale)
        whole = max(old.precision - old.scale, wanted.precision - wanted.scale)
        if whole + scale <= 38:
            return pa.decimal128(whole + scale, scale)
    raise TableError(
        f"column {name} is {old} in the table and cannot become {wanted}: only wider numbers can "
        "be taken in; name the new column otherwise, or write to another table"
    )


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table as another schema has it: missing columns are null, narrower types widened."""
    arrays = []
    for field in schema:
        if field.name in table.schema.names:
            arrays.append(table.column(field.name).cast(field.type))
        else:
            arrays.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
    return pa.Table.from_arrays(arrays, schema=schema)
