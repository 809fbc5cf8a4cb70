"""Columns of decoded and encoded values, and records made of those that could not be decoded.

`decode` and `encode` are Arrow UDFs over `Registry`; nothing is asked of it on the driver,
so a query can be planned without it, and a schema that is registered later is found when it is
needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from fencepost.spark.formats.registry import Config, registry_for

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DECODED: Final = "json string, schema_id int, error string"
_ARROW: Final = pa.struct(
    [("json", pa.string()), ("schema_id", pa.int32()), ("error", pa.string())]
)
_CORRUPT: Final = "_corrupt_record"
HEADERS: Final = {
    "__connect.errors.topic": "topic",
    "__connect.errors.partition": "partition",
    "__connect.errors.offset": "offset",
}
"""Headers of a dead letter as Kafka Connect names them (KIP-298), and where they come from."""


def decode(
    column: Column | str,
    registry: str | Mapping[str, Any],
    schema: str | StructType | None = None,
) -> Column:
    """Decode a binary column of values with Confluent's framing.

    `registry` is its URL, or properties of Confluent's SchemaRegistryClient (`url`,
    `basic.auth.user.info` and so on). The result is a struct of `json` (the value as JSON text),
    `schema_id` and `error` (why there is no value; null if there is one). With `schema`, in Spark's
    own words ("id long, amount decimal(9,2)"), it begins with `value`, the JSON read by it, and
    what does not fit it has an `error`. A null stays null and is no error. Raises ValueError for
    properties that are no plain values; tasks fail while the registry cannot be asked.
    """
    config = _config(registry)

    def decode_rows(values: pa.Array) -> pa.Array:
        rows = registry_for(config).decode_all(values.to_pylist())
        json_text, schema_ids, errors = zip(*rows, strict=True) if rows else ((), (), ())
        arrays = [
            pa.array(given, one.type)
            for given, one in zip((json_text, schema_ids, errors), _ARROW, strict=True)
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(_ARROW))

    # Arrow has to be told the type: annotations here are texts.
    decode_rows.__annotations__ = {"values": pa.Array, "return": pa.Array}
    # Spark's overloads want a number for the kind of function, which it finds by itself.
    decoded = F.arrow_udf(decode_rows, DECODED)(column)  # type: ignore[call-overload]
    return decoded if schema is None else _with_value(decoded, schema)


def encode(column: Column | str, registry: str | Mapping[str, Any], subject: str) -> Column:
    """Encode a column, a struct in most cases, by the newest schema of the registry's `subject`,
    with Confluent's framing: the other way round to `decode`, and `registry` as there.

    Nothing is registered. A null stays null. What does not fit the schema fails the task with an
    EncodeError, and so does a subject that is not there. Protobuf is the file's first message.
    ValueError as from `decode`.
    """
    config = _config(registry)

    def encode_rows(values: pa.Array) -> pa.Array:
        rows = [_with_maps(value, values.type) for value in values.to_pylist()]
        return pa.array(registry_for(config).encode_all(subject, rows), pa.binary())

    encode_rows.__annotations__ = {"values": pa.Array, "return": pa.Array}
    return F.arrow_udf(encode_rows, "binary")(column)  # type: ignore[call-overload]


def _with_maps(value: Any, kind: pa.DataType) -> Any:
    """Maps as dictionaries: Arrow gives pairs (and cannot do otherwise before version 20)."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {one.name: _with_maps(value[one.name], one.type) for one in kind}
    if pa.types.is_map(kind):
        return {key: _with_maps(inner, kind.item_type) for key, inner in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_with_maps(inner, kind.value_type) for inner in value]
    return value


def _config(registry: str | Mapping[str, Any]) -> Config:
    given = {"url": registry} if isinstance(registry, str) else dict(registry)
    for name, value in given.items():
        if not isinstance(value, str | int | float | bool):
            raise ValueError(f"{name}={value!r}: must be a text or a number, to travel to workers")
    return tuple(sorted(given.items()))


def _with_value(decoded: Column, schema: str | StructType) -> Column:
    if isinstance(schema, str):
        wanted: str | StructType = f"{schema}, {_CORRUPT} STRING"
    else:
        wanted = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
    options = {"columnNameOfCorruptRecord": _CORRUPT}
    read = F.from_json(decoded["json"], wanted, options)
    is_corrupt = read[_CORRUPT].isNotNull()
    unfit = F.when(is_corrupt, F.lit("does not fit the schema that was asked for"))
    return F.struct(
        F.when(~is_corrupt, read.dropFields(_CORRUPT)).alias("value"),
        decoded["json"].alias("json"),
        decoded["schema_id"].alias("schema_id"),
        F.coalesce(decoded["error"], unfit).alias("error"),
    )


def dead_letters(rows: DataFrame, decoded: str = "decoded") -> DataFrame:
    """The records of `rows` that could not be decoded, ready to be written to another topic.

    `rows` has the columns of the source and the column `decoded` that `decode` made. The result has
    the untouched `key` and `value`, and `headers`: those of the record (with includeHeaders), then
    where it came from and why it is here, under the names of Kafka Connect.
    """
    told = {name: F.col(column).cast("string") for name, column in HEADERS.items()}
    told["__connect.errors.exception.message"] = F.col(f"{decoded}.error")
    headers = F.array(
        *(
            F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
            for name, value in told.items()
        )
    )
    if "headers" in rows.columns:
        headers = F.when(F.col("headers").isNull(), headers).otherwise(
            F.concat(F.col("headers"), headers)
        )
    bad = rows.where(F.col(f"{decoded}.error").isNotNull())
    return bad.select("key", "value", headers.alias("headers"))
