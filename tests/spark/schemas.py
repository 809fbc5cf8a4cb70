"""Schemas for tests, without the session that Spark's own parser of types needs."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "timestamp": TimestampType(),
    "map": MapType(StringType(), BinaryType()),
    "headers": ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
}


def schema(text: str) -> StructType:
    """ "value string, offset bigint" and so on, with the type names above."""
    pairs = (part.split() for part in text.split(","))
    return StructType([StructField(name, TYPES[kind]) for name, kind in pairs])
