"""Columns of tables in a table format, in a process of its own: JARS FORMAT DIRECTORY.

Makes a table, changes what columns are wanted of it, and prints what it has after each step, or why
that was refused, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from fencepost.arrow.archive.layout import ArchiveError, Layout
from fencepost.spark.archive.lakes import SETTINGS as OF_FORMATS
from fencepost.spark.archive.query import prepare
from fencepost.spark.archive.tables import dated_rows, read_table, start_table
from fencepost.spark.columns import default_schema
from fencepost.spark.evolution import fitted
from fencepost.spark.java import ensure_java_home
from fencepost.spark.tables.errors import TableError
from fencepost.spark.tables.lakes import LakeTable

from .tables_job import SETTINGS, alter_columns

FIRST = {
    "i": pa.int32(), "f": pa.float32(), "d": pa.decimal128(9, 2), "s": pa.string(),
    "__offset": pa.int64(),
}  # fmt: skip
WIDER = {
    **FIRST, "i": pa.int64(), "f": pa.float64(), "d": pa.decimal128(18, 2), "more": pa.string(),
}  # fmt: skip
INNER = pa.struct([("a", pa.int32()), ("d", pa.decimal128(9, 2))])
WIDER_INNER = pa.struct([("a", pa.int64()), ("d", pa.decimal128(18, 2)), ("b-c", pa.string())])


OF_TABLE = (("__key", pa.binary()), ("__offset", pa.int64()))
ODD = ("a b", "a.b", "a`b", "`", "c-d", 'q"q', "q'q", "p,p", "x:y", "<z>", "(t)", "u;u", "e=e",
       "{v}", "n\nn", "t\tt", "\\", "Ünï", "9", "select", "--", "${h}", "/*")  # fmt: skip


def with_odd_names(first: pa.DataType, names: Sequence[str]) -> pa.Schema:
    """Columns, and fields in structs, arrays and maps; the first of all names is of this type."""
    fields = [pa.field(one, first if one == ODD[0] else pa.int32()) for one in names]
    few = pa.struct(fields[:4])
    inside = pa.struct([*fields, ("l", pa.list_(few)), ("m", pa.map_(pa.string(), few))])
    return pa.schema([*few, ("inside", inside), *OF_TABLE])


PLACES = {
    "at first": [with_odd_names(pa.int32(), ODD)],
    "later": [
        pa.schema(OF_TABLE), with_odd_names(pa.int32(), ODD[:-1]), with_odd_names(pa.int64(), ODD)
    ],
}  # fmt: skip
"""Of two tables, which columns each has after the other."""


def nested(inner: pa.DataType) -> pa.Schema:
    kinds = {"s": inner, "l": pa.list_(inner), "m": pa.map_(pa.string(), inner)}
    return pa.schema([*kinds.items(), *OF_TABLE])


def main() -> None:
    jars, format, directory = sys.argv[1:]
    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.jars", jars)
    for name, value in {**SETTINGS, **OF_FORMATS[format]}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    found = evolved(spark, format, f"file:{directory}/latest")
    found |= evolved_inside(spark, format, f"file:{directory}/nested")
    for when, schemas in PLACES.items():
        place = f"file:{directory}/odd {when}"
        found[f"odd names {when}"] = named_oddly(spark, format, place, schemas)
    found["made to have them"] = changes_of_columns(spark, format, place)
    found["archive without headers"] = lost(spark, format, Path(directory) / "archive")
    found["appended"] = appended(spark, format, Path(directory) / "appended")
    print(json.dumps(found))
    spark.stop()


def evolved(spark: Any, format: str, place: str) -> dict[str, Any]:
    def make(columns: dict[str, pa.DataType]) -> Any:
        """What the table has then, or the refusal."""
        try:
            LakeTable(spark, format, place).make(pa.schema(list(columns.items())))
        except TableError as error:
            return str(error)
        return has()

    def has() -> dict[str, str]:
        rows = LakeTable(spark, format, place).rows()
        return {one.name: one.dataType.simpleString() for one in rows.schema}

    def add(row: str) -> None:
        table = LakeTable(spark, format, place)
        spark.sql(f"INSERT INTO {table.name} SELECT {row}")

    found: dict[str, Any] = {"made": make(FIRST)}
    add("1, cast(0.5 AS float), cast(1.25 AS decimal(9,2)), 'a', 7")
    found["widened"] = make(WIDER)
    add("1099511627776, 0.1D, cast(999999999999999.25 AS decimal(18,2)), 'b', 8, 'm'")
    rows = LakeTable(spark, format, place).rows().orderBy("i").collect()
    found["rows"] = [[r.i, r.f, str(r.d), r.s, r["__offset"], r.more] for r in rows]
    found["narrower asked for"] = make(FIRST)
    found["string to int"] = make({"added": pa.int32(), **WIDER, "s": pa.int64()})
    found["after a refusal"] = has()
    digits = make({**WIDER, "d": pa.decimal128(20, 4)})
    found["more digits behind the point"] = digits["d"] if isinstance(digits, dict) else digits
    found["altered by others"] = make({**WIDER, "i": pa.int32(), "d": pa.decimal128(9, 2)})["i"]
    return found


def evolved_inside(spark: Any, format: str, place: str) -> dict[str, Any]:
    """What a table has after its structs got a field and wider ones, in arrays and maps as well."""

    def make(inner: pa.DataType) -> list[str] | str:
        try:
            LakeTable(spark, format, place).make(nested(inner))
        except TableError as error:
            return str(error)
        schema = LakeTable(spark, format, place).rows().schema
        in_struct, in_list, in_map = (schema[name].dataType for name in ("s", "l", "m"))
        inside = (in_struct, in_list.elementType, in_map.valueType)
        return sorted({one.simpleString() for one in inside})

    def merge(inner: pa.DataType, key: bytes, value: dict[str, Any]) -> None:
        table = LakeTable(spark, format, place)
        row = {"s": value, "l": [value, None], "m": [("k", value)], "__key": key, "__offset": 0}
        made = pa.Table.from_pylist([row], nested(inner))
        changes = fitted(made, table.columns(made.schema, ("__key",)))
        table.merge(spark.createDataFrame(changes.append_column("__drop", [[False]])), "q", key[0])

    found: dict[str, Any] = {"structs made": make(INNER)}
    merge(INNER, b"1", {"a": 1, "d": Decimal("1.25")})
    found["structs grown"] = make(WIDER_INNER)
    merge(WIDER_INNER, b"2", {"a": 2**40, "d": Decimal("1.50"), "b-c": "x"})
    found["structs asked for less"] = make(INNER)
    merge(INNER, b"3", {"a": 3, "d": None})
    rows = LakeTable(spark, format, place).rows().orderBy("__key").collect()
    found["structs"] = [str(tuple(row["s"])) for row in rows]
    found["alike"] = [row["l"] == [row["s"], None] and row["m"] == {"k": row["s"]} for row in rows]
    found["struct refused"] = make(pa.struct([("a", pa.string())]))
    return found


def named_oddly(spark: Any, format: str, place: str, schemas: list[pa.Schema]) -> list[Any]:
    """Whether a table has all that was put into it, after a row of each of these schemas; or why it
    took one of them not."""

    def put(number: int, schema: pa.Schema) -> bool:
        table = LakeTable(spark, format, place)
        table.make(schema)
        row = numbered(pa.struct(schema), number) | {"__key": b"%d" % number}
        changes = fitted(pa.Table.from_pylist([row], schema), table.columns(schema, ("__key",)))
        changes = changes.append_column("__drop", [[False]])
        table.merge(spark.createDataFrame(changes), "q", number)
        rows.append(without_nulls(row))
        has = LakeTable(spark, format, place).rows().orderBy("__key").collect()
        return [without_nulls(one.asDict(recursive=True)) for one in has] == rows

    rows: list[dict[str, Any]] = []
    try:
        return [put(number, schema) for number, schema in enumerate(schemas)]
    except TableError as error:
        return [str(error)]


def changes_of_columns(spark: Any, format: str, place: str) -> list[str]:
    """How the table's columns were changed, in Delta's words; Iceberg's versions of its schema."""
    name = LakeTable(spark, format, place).name
    if format == "delta":
        history = spark.sql(f"DESCRIBE HISTORY {name}").orderBy("version").collect()
        return [one.operation for one in history if one.operation not in ("MERGE", "CREATE TABLE")]
    log = spark.sql(f"SELECT latest_schema_id FROM {name}.metadata_log_entries").collect()
    return sorted({str(one[0]) for one in log if one[0] is not None})


def numbered(kind: pa.DataType, number: int) -> Any:
    """A value of which every part is another one."""
    if pa.types.is_struct(kind):
        return {one.name: numbered(one.type, number * 100 + at) for at, one in enumerate(kind)}
    if pa.types.is_list(kind):
        return [numbered(kind.value_type, number)]
    return [("k", numbered(kind.item_type, number))] if pa.types.is_map(kind) else number


def without_nulls(value: Any) -> Any:
    """What rows have where they have something, maps as Spark gives them."""
    if isinstance(value, list):
        pairs = bool(value) and isinstance(value[0], tuple)
        return without_nulls(dict(value)) if pairs else list(map(without_nulls, value))
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return value


def lost(spark: Any, format: str, directory: Path) -> str:
    """The refusal of a stream into an archive's table of which a column is gone."""
    layout = Layout(directory)
    prepare(layout, format)
    empty = spark.createDataFrame([], default_schema(include_headers=True))
    rows = dated_rows(empty)
    place = layout.for_spark("table")
    if format == "delta":
        rows.drop("headers").write.format(format).partitionBy("topic", "date").save(place)
    else:
        name = LakeTable(spark, format, layout.for_spark()).name.partition(".")[0]
        rows.drop("headers").writeTo(f"{name}.table").using(format).create()
    try:
        start_table(rows, lambda writer: writer, layout, format)
    except ArchiveError as error:
        return str(error)
    return "it began"


def appended(spark: Any, format: str, directory: Path) -> list[Any]:
    """What an archive's table has after a batch, changes by its owner, and another batch."""
    layout = Layout(directory / "archive")
    prepare(layout, format)
    schema = default_schema(include_headers=True)
    incoming = directory / "incoming"

    def run(offset: int) -> None:
        row = (bytearray(b"k"), bytearray(b"v"), "t", 0, offset, None, 0, None)
        spark.createDataFrame([row], schema).coalesce(1).write.mode("append").parquet(str(incoming))
        rows = dated_rows(spark.readStream.schema(schema).parquet(str(incoming)))
        checkpoint = str(directory / "checkpoint")

        def with_trigger(writer: Any) -> Any:
            return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)

        query = start_table(rows, with_trigger, layout, format)
        query.awaitTermination()
        query.stop()

    run(0)
    alter_columns(spark, format, layout)
    run(1)
    table = read_table(spark, layout, format).orderBy("offset")
    kind = table.schema["partition"].dataType.simpleString()
    return [kind, *([one.partition, one.offset, one.note] for one in table.collect())]


if __name__ == "__main__":
    main()
