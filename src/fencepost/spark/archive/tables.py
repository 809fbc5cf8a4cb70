"""Archives in table formats, `delta` and `iceberg`, in DIR/table.

The stream goes through the format's own sink. Both keep the query's id and the batch's number in
the commit that adds the batch's files, and skip a batch that they find there, so both are exactly
once by themselves. What is done here is what the sinks leave to others: the table is made before
the first batch, with the columns, and the partitions by topic and date, of an archive in Parquet.

Both formats are made for one minor version of Spark, and with another may fail late: at the first
read of a table that is not empty, say. So a table is made, and read, before a stream begins; where
that fails because classes do not fit, the format is refused by name.

An Iceberg table needs a catalog. Ours is of the type `hadoop`, which keeps nothing outside of DIR,
so the table can be read by its path as well. Its name is made of the path, since Spark remembers
catalogs by name as long as it runs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from fencepost.arrow.archive.layout import ArchiveError, Layout
from fencepost.spark.archive.lakes import DELTA, ICEBERG, PACKAGES, how_to_load
from fencepost.spark.columns import default_schema
from fencepost.spark.ddl import quoted

DATE: Final = (
    "date_from_unix_date(cast((unix_micros(timestamp) - pmod(unix_micros(timestamp), 86400000000))"
    " div 86400000000 as int))"
)
"""The date of a record's timestamp in UTC, whatever the session's time zone is."""
COLUMNS: Final = (
    "key", "value", "headers", "partition", "offset", "timestamp", "timestampType", "date",
)  # fmt: skip
TABLE: Final = "table"
PARTITIONED_BY: Final = ("topic", "date")
_WIDER: Final = {("int", "bigint")}
"""Types of Spark that columns of an archive may be widened to."""
_CATALOG: Final = "org.apache.iceberg.spark.SparkCatalog"
_MISSING: Final = re.compile(
    r"DATA_SOURCE_NOT_FOUND|Failed to find.*data source"
    r"|PLUGIN_CLASS_NOT_FOUND|Cannot find catalog plugin class"
)
_MISFIT: Final = re.compile(
    r"\b(?:IncompatibleClassChange|NoSuchMethod|NoSuchField|AbstractMethod|NoClassDefFound)Error\b"
)


def dated_rows(frame: Any) -> Any:
    """The records of a frame with the columns of an archive, and with topic and date."""
    from pyspark.sql import functions as F  # noqa: N812

    return frame.withColumn("date", F.expr(DATE)).select("topic", *COLUMNS)


def start_table(rows: Any, with_trigger: Callable[[Any], Any], layout: Layout, format: str) -> Any:
    """Start the stream of `rows` into the archive's table, which is made if it is not there; a
    StreamingQuery. `with_trigger` completes a DataStreamWriter. ArchiveError where Spark has no
    such format, or one that is made for another Spark, and where the table has columns that an
    archive's records do not fit."""
    spark = rows.sparkSession
    path = layout.for_spark(TABLE)
    with told_plainly(format, spark.version):
        if format in PACKAGES:
            _make(spark, spark.createDataFrame([], rows.schema), layout, format)
            found = _table(spark, layout, format).schema
            require_columns(found, layout.place(TABLE))
            rows = _as_the_table_has(rows, found)
            _try_reading(spark, layout, format)
        writer = with_trigger(rows.writeStream).format(format).outputMode("append")
        writer = writer.partitionBy(*PARTITIONED_BY)
        if format != ICEBERG:
            return writer.option("path", path).start()
        # A task writes as many files as it has dates and topics, instead of a shuffle by them.
        writer = writer.option("fanout-enabled", "true")
        return writer.toTable(iceberg_table(spark, layout))


def _as_the_table_has(rows: Any, found: Any) -> Any:
    """The rows with columns in the types of a table that has wider ones."""
    types = {one.name: one.dataType for one in found if one.name in rows.columns}
    return rows.withColumns({name: rows[name].cast(kind) for name, kind in types.items()})


def iceberg_table(spark: Any, layout: Layout) -> str:
    """The name of an archive's Iceberg table in this session, which gets to know its catalog."""
    place = layout.for_spark()
    catalog = f"fencepost_{hashlib.sha256(place.encode()).hexdigest()[:16]}"
    spark.conf.set(f"spark.sql.catalog.{catalog}", _CATALOG)
    spark.conf.set(f"spark.sql.catalog.{catalog}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{catalog}.warehouse", place)
    spark.conf.set(f"spark.sql.catalog.{catalog}.cache-enabled", "false")
    return f"{catalog}.{TABLE}"


def _make(spark: Any, empty: Any, layout: Layout, format: str) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    if format == DELTA:
        if not (layout.directory / TABLE / "_delta_log").is_dir():
            writer = empty.write.format(DELTA).partitionBy(*PARTITIONED_BY)
            writer.save(layout.for_spark(TABLE))
        return
    table = iceberg_table(spark, layout)
    if not spark.catalog.tableExists(table):
        new = empty.writeTo(table).using(ICEBERG).partitionedBy(*map(F.col, PARTITIONED_BY))
        new.tableProperty("write.distribution-mode", "none").create()


def _table(spark: Any, layout: Layout, format: str) -> Any:
    if format == ICEBERG:
        return spark.table(iceberg_table(spark, layout))
    return spark.read.format(format).load(layout.for_spark(TABLE))


def _try_reading(spark: Any, layout: Layout, format: str) -> None:
    """Jars of another Spark may fail at the first read, and not before."""
    from pyspark.sql import functions as F  # noqa: N812

    _table(spark, layout, format).agg(F.max("offset")).collect()


def read_table(spark: Any, layout: Layout, format: str) -> Any:
    """The archive's table, a DataFrame of what is committed now. ArchiveError where there is none,
    or it has not the columns of an archive."""
    if not layout.storage.names(TABLE):
        raise ArchiveError(f"{layout}: there is no {TABLE} yet")
    with told_plainly(format, spark.version):
        if format in PACKAGES:
            table = _table(spark, layout, format)
        else:
            # Else Spark takes a topic's name for a number, where it is made of digits.
            reader = spark.read.schema(default_schema(include_headers=True))
            table = reader.format(format).load(layout.for_spark(TABLE))
    require_columns(table.schema, layout.place(TABLE))
    return table


def require_columns(found: Any, path: str) -> None:
    """ArchiveError unless a table's schema has the columns of an archive, of their types or wider
    ones, and no others that may not be null."""
    types = {one.name: one.dataType.simpleString() for one in found}
    own = {one.name: one.dataType.simpleString() for one in default_schema(include_headers=True)}
    for name, wanted in own.items():
        if name not in types:
            raise ArchiveError(
                f"{path}: has no column {name}, which is {wanted} in an archive: what is archived "
                f"would lose it; add it (ALTER TABLE ... ADD COLUMNS ({name} {wanted})), or "
                "archive to a new directory"
            )
        if types[name] != wanted and (wanted, types[name]) not in _WIDER:
            raise ArchiveError(
                f"{path}: column {name} is {types[name]} in the table and {wanted} in an archive, "
                "and only wider whole numbers lose nothing; give it that type again and other "
                "values a column of another name, or archive to a new directory"
            )
    for one in found:
        if one.name not in {*own, *PARTITIONED_BY} and not one.nullable:
            raise ArchiveError(
                f"{path}: column {one.name} is {types[one.name]} and may not be null, and an "
                "archive has no values of it; allow nulls (ALTER TABLE ... ALTER COLUMN "
                f"{quoted(one.name)} DROP NOT NULL)"
            )


@contextmanager
def told_plainly(format: str, version: str) -> Iterator[None]:
    """ArchiveError for a format that Spark does not have, or that is not made for this Spark."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        hint = how_to_load(format, version)
        if _MISSING.search(text):
            told = f"Spark has no format {format!r}{hint and f': {hint}'}"
            raise ArchiveError(told) from error
        if hint and _MISFIT.search(text):
            raise ArchiveError(
                f"format {format!r}: the package is made for another Spark than {version}, whose "
                f"classes differ: {hint}"
            ) from error
        raise
