"""Tables of latest values in Delta or Iceberg, in PATH/rows, by their own MERGE.

A batch is folded together with the rows that the table has of its keys, by the same rules as in
Parquet (`merging`), and what comes out is merged by key. Deletions are rows with `__deleted`, which
readers are to leave out. What the table does not hold, query, batch, where the topic was read to,
is in the table's versions as with Parquet, written behind the MERGE. A batch that was merged, and
whose version is not there yet, is merged again, and changes nothing, since all of its events are
repeated ones. Both formats also keep query and batch with their commit, where their people look.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.arrow.archive.layout import ArchiveError
from fencepost.spark.archive.lakes import DELTA, ICEBERG
from fencepost.spark.archive.tables import told_plainly
from fencepost.spark.tables.batches import RunTasks
from fencepost.spark.tables.bucket_task import BucketReport, BucketWork
from fencepost.spark.tables.columns import fitted
from fencepost.spark.tables.decoding import ASIDE, Decoding
from fencepost.spark.tables.errors import TableError, UnorderedError
from fencepost.spark.tables.events import TRUNCATE
from fencepost.spark.tables.merging import merge
from fencepost.spark.tables.spark_tasks import events_of

LAKES: Final = (DELTA, ICEBERG)
ROWS: Final = "rows"
_NEW: Final = "__new_"
_CATALOG: Final = "org.apache.iceberg.spark.SparkCatalog"


class LakeTable:
    """The rows of one table. `place` is PATH as Spark takes it."""

    def __init__(self, spark: Any, format: str, place: str) -> None:
        self.spark = spark
        self.format = format
        self.path = f"{place}/{ROWS}"
        self.name = f"delta.`{self.path}`" if format == DELTA else _iceberg_name(spark, place)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            with told_plainly(self.format, self.spark.version):
                yield
        except ArchiveError as error:
            raise TableError(str(error)) from error

    def make(self, columns: pa.Schema) -> None:
        """Have the table, with these columns. TableError where Spark has no such format, or the
        table cannot take a column in."""
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(columns, prefer_timestamp_ntz=True)
        with self._told():
            if not self._exists():
                empty = self.spark.createDataFrame([], schema)
                if self.format == DELTA:
                    empty.write.format(DELTA).save(self.path)
                else:
                    empty.writeTo(self.name).using(ICEBERG).create()
            # Jars of another Spark may fail at the first read, and not before.
            self.rows().select("__offset").limit(1).collect()
        self._evolve(schema)

    def _exists(self) -> bool:
        if self.format == ICEBERG:
            return bool(self.spark.catalog.tableExists(self.name))
        from pyspark.errors import AnalysisException

        try:
            self.spark.read.format(DELTA).load(self.path)
        except AnalysisException as error:
            if error.getCondition() in ("DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST"):
                return False
            if "not exist" in str(error) or "is not a Delta table" in str(error):
                return False
            raise
        return True

    def _evolve(self, schema: Any) -> None:
        from pyspark.errors import PySparkException

        has = {one.name: one.dataType for one in self.rows().schema}
        for one in schema:
            kind = one.dataType.simpleString()
            try:
                if one.name not in has:
                    self.spark.sql(
                        f"ALTER TABLE {self.name} ADD COLUMNS ({quoted(one.name)} {kind})"
                    )
                elif has[one.name] != one.dataType:
                    self._widen(one.name, kind)
            except PySparkException as error:
                raise TableError(
                    f"{self.path}: {self.format} cannot change column {one.name} from "
                    f"{has[one.name].simpleString() if one.name in has else 'nothing'} to {kind}: "
                    f"{str(error).splitlines()[0]}"
                ) from error

    def _widen(self, column: str, kind: str) -> None:
        if self.format == DELTA:
            self.spark.sql(
                f"ALTER TABLE {self.name} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
            )
        self.spark.sql(f"ALTER TABLE {self.name} ALTER COLUMN {quoted(column)} TYPE {kind}")

    def rows(self) -> Any:
        """All rows and deletions, a DataFrame."""
        if self.format == DELTA:
            return self.spark.read.format(DELTA).load(self.path)
        return self.spark.table(self.name)

    def merge(self, changes: Any, query: str, batch: int) -> None:
        """Merge changed rows by key; those with `__drop` go."""
        from pyspark.sql import functions as F  # noqa: N812

        session = changes.sparkSession
        settings = {
            "spark.databricks.delta.write.txnAppId": f"fencepost-{query}",
            "spark.databricks.delta.write.txnVersion": str(batch),
            "spark.sql.iceberg.snapshot-property.fencepost-query": query,
            "spark.sql.iceberg.snapshot-property.fencepost-batch": str(batch),
        }
        # A temporary view of what is read from an Iceberg table cannot be merged into that table
        # with Spark 4.1 (it has no plan for the view's reference), so there is none: the changes'
        # columns have names of their own instead.
        columns = [name for name in changes.columns if name != "__drop"]
        source = changes.toDF(*(f"{_NEW}{name}" for name in changes.columns))
        values = {quoted(name): F.col(quoted(f"{_NEW}{name}")) for name in columns}
        same = F.expr(f"`__key` = `{_NEW}__key`")
        dropped = F.col(f"{_NEW}__drop")
        merge = source.mergeInto(self.name, same).whenMatched(dropped).delete()
        merge = merge.whenMatched().update(values).whenNotMatched(~dropped).insert(values)
        try:
            for name, value in settings.items():
                session.conf.set(name, value)
            merge.merge()
        finally:
            for name in settings:
                session.conf.unset(name)


def quoted(name: str) -> str:
    """A column's name as a part of an expression."""
    return "`" + name.replace("`", "``") + "`"


def _iceberg_name(spark: Any, place: str) -> str:
    """The table's name in this session, which gets to know a catalog of the type hadoop."""
    catalog = f"fencepost_{hashlib.sha256(place.encode()).hexdigest()[:16]}"
    for name, value in {
        "": _CATALOG,
        ".type": "hadoop",
        ".warehouse": place,
        ".cache-enabled": "false",
    }.items():
        spark.conf.set(f"spark.sql.catalog.{catalog}{name}", value)
    return f"{catalog}.{ROWS}"


def in_lake(
    frame: Any,
    place: str,
    format: str,
    query: str,
    batch: int,
    accept: Callable[[Sequence[BucketReport]], None],
) -> RunTasks:
    """Runs a batch's work in Spark's tasks and merges what comes out into PATH/rows, unless
    `accept` raises what makes the batch fail."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import from_arrow_schema

    def run(decoding: Decoding, work: BucketWork) -> list[BucketReport]:
        stored = work.rules.stored
        table = LakeTable(frame.sparkSession, format, place)
        table.make(stored)
        events = events_of(frame, decoding).persist()
        marks = (pa.field("__drop", pa.bool_()), pa.field("__report", pa.string()))
        schema = from_arrow_schema(pa.schema([*stored, *marks]), prefer_timestamp_ntz=True)
        names = [quoted(name) for name in stored.names]
        old = table.rows().select(*names)
        if events.where(F.col("kind") == TRUNCATE).isEmpty():
            old = old.join(events.select(F.col("key").alias("__key")).distinct(), "__key", "semi")
        bucket = F.pmod(F.crc32("__key"), F.lit(decoding.buckets)).cast("int")
        old = old.select(*names, bucket.alias("__bucket"))

        def fold(number: tuple[Any, ...], events: pa.Table, rows: pa.Table) -> pa.Table:
            return folded(work, number[0].as_py(), events, rows)

        fold.__annotations__ = {}
        sides = events.groupBy("bucket").cogroup(old.groupBy("__bucket"))
        changes = sides.applyInArrow(fold, schema).persist()
        try:
            told = changes.where("__report IS NOT NULL").select("__report").collect()
            reports = [BucketReport.from_json(one["__report"]) for one in told]
            accept(reports)
            table.merge(changes.where("__report IS NULL").drop("__report"), query, batch)
            return reports
        finally:
            changes.unpersist()
            events.unpersist()

    return run


def folded(work: BucketWork, bucket: int, events: pa.Table, rows: pa.Table) -> pa.Table:
    """The rows of a bucket that a batch changes or drops, and a row with the report."""
    stored = work.rules.stored
    found = stored.empty_table()
    dropped = found["__key"]
    if bucket == ASIDE:
        report = work.merge_bucket(bucket, events)
    else:
        try:
            merged = merge(fitted(rows, stored), events, work.rules)
        except UnorderedError as error:
            report = BucketReport(bucket, {}, refused=str(error))
        else:
            found = merged.new
            kept = pc.is_in(rows["__key"], value_set=merged.rows["__key"].combine_chunks())
            dropped = rows["__key"].filter(pc.invert(kept))
            newest = pc.max(events["timestamp_ms"]).as_py()
            report = BucketReport(bucket, merged.counts, None, merged.marks, merged.lasts, newest)
    no_key = pa.table({"__key": pa.array([None], pa.binary())})
    return pa.concat_tables(
        [
            _marked(found, drop=False, report=None),
            _marked(fitted(pa.table({"__key": dropped}), stored), drop=True, report=None),
            _marked(fitted(no_key, stored), drop=False, report=report.to_json()),
        ]
    )


def _marked(rows: pa.Table, *, drop: bool, report: str | None) -> pa.Table:
    count = rows.num_rows
    dropped = pa.array([drop] * count, pa.bool_())
    reports = pa.array([report] * count, pa.string())
    return rows.append_column("__drop", dropped).append_column("__report", reports)
