"""The columns of a read: Spark's Kafka columns, or those of them that a user's schema names.

Spark's own connector refuses a schema. Here `.schema("value string, offset bigint")` reads just
those columns, which costs a fraction of all of them, and casts keys and values to text on the way
(as CAST does: bytes are taken as UTF-8, unchecked). Spark demands Arrow types to the letter, so
everything is built in the types that `to_arrow_schema` gives.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from fencepost.spark.columns import COLUMNS
from fencepost.spark.errors import SchemaError


class Projection:
    """Turns decoded Kafka columns into those of `schema`.

    Raises SchemaError, naming column and choices, for one that does not exist or has another type.
    Holds plain data only and travels in pickles.
    """

    def __init__(self, schema: StructType) -> None:
        names = {name.lower(): name for name in COLUMNS}
        self.sources: list[str] = []
        for field in schema.fields:
            source = names.get(field.name.lower())
            if source is None:
                raise SchemaError(
                    f"there is no column {field.name!r} to read; there are {', '.join(COLUMNS)}",
                    field.name,
                    ", ".join(COLUMNS),
                )
            allowed = COLUMNS[source]
            if _nullable(field.dataType) not in allowed:
                choices = " or ".join(kind.simpleString() for kind in allowed)
                raise SchemaError(
                    f"column {field.name!r} can be read as {choices}, "
                    f"not as {field.dataType.simpleString()}",
                    field.name,
                    choices,
                )
            self.sources.append(source)
        self.arrow_schema = _arrow_schema(schema)
        self.columns = tuple(dict.fromkeys(self.sources))

    def apply(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, decoded with `columns`, in the shape Spark wants."""
        for batch in batches:
            arrays = [
                _cast(batch.column(source), field.type)
                for source, field in zip(self.sources, self.arrow_schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)


def _arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark will compare with: timestamps are in UTC, which PySpark 4.1
    takes for granted and later versions want to be told."""
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type.equals(kind):
        return array
    return array.cast(kind, safe=False)


def _nullable(kind: DataType) -> Any:
    """The type with everything inside nullable, as schemas written as text are."""
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _nullable(f.dataType)) for f in kind.fields])
    return kind
