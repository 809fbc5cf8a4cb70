"""The columns of a read, as Spark's Kafka source has them, and the types they may be read as.

Spark asks for a schema in a process of its own and starts that for every session, so nothing here
loads more than Spark's types: no Arrow, no client.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

HEADERS_TYPE = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
COLUMNS: dict[str, tuple[DataType, ...]] = {
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "topic": (StringType(),),
    "partition": (IntegerType(), LongType()),
    "offset": (LongType(),),
    "timestamp": (TimestampType(),),
    "timestampType": (IntegerType(), LongType()),
    "headers": (HEADERS_TYPE,),
}
"""Each column's type in Spark's Kafka source, and the types it may be read as."""


def default_schema(*, include_headers: bool) -> StructType:
    """The schema of Spark's Kafka source."""
    names = [name for name in COLUMNS if include_headers or name != "headers"]
    return StructType([StructField(name, COLUMNS[name][0]) for name in names])
