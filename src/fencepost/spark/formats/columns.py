"""Columns of decoded and encoded values, and records made of those that could not be decoded.

`decode` and `encode` are Arrow UDFs over `Registry`. On the driver nothing is asked of it, so a
query can be planned without it, and a schema that is registered later is found when it is needed;
but for a `subject` to read values by: its schema is the type of a column, and so part of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from fencepost.schemas.decoders import SchemaText
from fencepost.schemas.framing import DecodeError
from fencepost.schemas.registry import (
    LATEST,
    Config,
    Registration,
    Registry,
    Which,
    registry_for,
)
from fencepost.spark.formats.inference import spark_type

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
    *,
    subject: str | None = None,
    version: Which = LATEST,
) -> Column:
    """Decode a binary column of values with Confluent's framing.

    `registry` is its URL, or properties of Confluent's SchemaRegistryClient (`url`,
    `basic.auth.user.info` and so on). The result is a struct of `json` (the value as JSON text),
    `schema_id` and `error` (why there is no value; null if there is one). With `schema`, in Spark's
    own words ("id long, amount decimal(9,2)"), it begins with `value`, the JSON read by it, and
    what does not fit it has an `error`. A null stays null and is no error.

    With `subject`, values are brought into the shape of one of its versions, whichever id they were
    written with: by Avro's resolution of schemas, and as the first message of the file for
    Protobuf. Without a `schema`, `value` has the type of that version (`schema_of`). The registry
    is asked for it now, and the query keeps to it as long as it runs.

    Raises ValueError for properties that are no plain values, for a subject or version that is not
    there, and for a schema that has no type; what Confluent's client raises when the registry
    cannot be asked. Tasks fail while it cannot.
    """
    config = _config(registry)
    reader_id = None
    if subject is not None:
        reader_id, text = _version(config, subject, version)
        if schema is None:
            schema = _type(text, subject)

    def decode_rows(values: pa.Array) -> pa.Array:
        rows = registry_for(config).decode_all(values.to_pylist(), reader_id)
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


def schema_of(
    registry: str | Mapping[str, Any], subject: str, version: Which = LATEST
) -> StructType:
    """The type of a subject's values, by its newest version or another. Errors as of `decode`."""
    return _type(_version(_config(registry), subject, version)[1], subject)


def encode(
    column: Column | str,
    registry: str | Mapping[str, Any],
    subject: str,
    schema: str | None = None,
    *,
    schema_type: str = "AVRO",
    references: Sequence[tuple[str, str, int]] = (),
) -> Column:
    """Encode a column, a struct in most cases, with Confluent's framing: the other way round to
    `decode`, and `registry` as there.

    By the newest schema of the registry's `subject`; or by `schema`, a text of the type AVRO,
    PROTOBUF or JSON, which each worker registers under the subject before its first value (with
    `references` as name, subject and version). Of Confluent's serializers `registry` may then have
    `auto.register.schemas` (false: it must be there already) and `normalize.schemas`.

    A null stays null. What does not fit the schema fails the task with an EncodeError, and so do a
    subject that is not there and a schema that the registry refuses, with its words. Protobuf is
    the file's first message. ValueError for properties that are no plain values.
    """
    properties = dict(_config(registry))
    is_registered = _flag(properties, "auto.register.schemas", True)
    is_normalized = _flag(properties, "normalize.schemas", False)
    if _flag(properties, "use.latest.version", False) and schema is not None:
        raise ValueError("use.latest.version=true: leave the schema out, the newest is used then")
    config = _config(properties)
    registration: Registration | None = None
    if schema is not None:
        named = tuple((str(name), str(where), int(number)) for name, where, number in references)
        registration = Registration(schema, schema_type, named, is_registered, is_normalized)

    def encode_rows(values: pa.Array) -> pa.Array:
        rows = [_with_maps(value, values.type) for value in values.to_pylist()]
        encoded = registry_for(config).encode_all(subject, rows, registration)
        return pa.array(encoded, pa.binary())

    encode_rows.__annotations__ = {"values": pa.Array, "return": pa.Array}
    return F.arrow_udf(encode_rows, "binary")(column)  # type: ignore[call-overload]


def _version(config: Config, subject: str, version: Which) -> tuple[int, SchemaText]:
    try:
        # A client of its own: the newest version is wanted, not one that is remembered.
        return Registry(dict(config)).version(subject, version)
    except DecodeError as error:
        raise ValueError(str(error)) from error


def _type(schema: SchemaText, subject: str) -> StructType:
    try:
        found = spark_type(schema)
    except DecodeError as error:
        raise ValueError(f"subject {subject}: {error}") from error
    if not isinstance(found, StructType):
        kind = found.simpleString()
        raise ValueError(
            f"subject {subject}: its values are {kind}, not records: give a schema, or take .json"
        )
    return found


def _flag(properties: dict[str, Any], name: str, default: bool) -> bool:
    """A property of Confluent's serializers, which is none of their client's. ValueError."""
    value = properties.pop(name, default)
    if str(value).lower() not in ("true", "false"):
        raise ValueError(f"{name}={value!r}: must be true or false")
    return str(value).lower() == "true"


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
