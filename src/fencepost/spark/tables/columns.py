"""Columns of a table: its own, those that it can have, and rows in the shape of other ones."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fencepost.spark.evolution import REMEDY, ColumnChangeError, evolved
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


def evolved_columns(old: pa.Schema, wanted: pa.Schema, key: tuple[str, ...]) -> pa.Schema:
    """The columns of a table that has `old` and takes rows with `wanted` in. TableError."""
    try:
        found = evolved(old, wanted)
    except ColumnChangeError as error:
        raise TableError(str(error)) from error
    for name in key:
        before, after = (schema.field(name).type for schema in (old, found))
        # A key is known by its digits and fields: the row of each would be there a second time.
        if pa.types.is_nested(before) and before != after:
            part = "what is in"
        elif pa.types.is_decimal128(before) and before.scale != after.scale:
            part = "the digits behind the point of"
        else:
            continue
        raise TableError(
            f"column {name} is {before} in the table and cannot become {after}: {part} a key "
            f"column is a part of every key; {REMEDY}"
        )
    require_usable(found, key)
    return found
