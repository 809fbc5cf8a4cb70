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
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.arrow.archive.layout import ArchiveError
from fencepost.spark.archive.lakes import DELTA, ICEBERG
from fencepost.spark.archive.tables import told_plainly
from fencepost.spark.ddl import quoted, type_ddl
from fencepost.spark.evolution import (
    LOSSLESS,
    REMEDY,
    ColumnChangeError,
    Step,
    fitted,
    steps,
    wider,
)
from fencepost.spark.tables.batches import RunTasks
from fencepost.spark.tables.bucket_task import BucketReport, BucketWork
from fencepost.spark.tables.decoding import ASIDE, Decoding
from fencepost.spark.tables.errors import TableError, UnorderedError
from fencepost.spark.tables.events import TRUNCATE
from fencepost.spark.tables.merging import merge
from fencepost.spark.tables.spark_tasks import events_of
from fencepost.spark.tables.versions import PARQUET

LAKES: Final = (DELTA, ICEBERG)
ROWS: Final = "rows"
_NEW: Final = "__new_"
_SUBSTITUTE: Final = "spark.sql.variable.substitute"
_MAPPING: Final = "delta.columnMapping.mode"
_CATALOG: Final = "org.apache.iceberg.spark.SparkCatalog"


class LakeTable:
    """The rows of one table. `place` is PATH as Spark takes it."""

    def __init__(self, spark: Any, format: str, place: str) -> None:
        self.spark = spark
        self.format = format
        self.path = f"{place}/{ROWS}"
        self.name = f"delta.{quoted(self.path)}" if format == DELTA else _iceberg_name(spark, place)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            with told_plainly(self.format, self.spark.version):
                yield
        except ArchiveError as error:
            raise TableError(str(error)) from error

    def make(self, columns: pa.Schema) -> None:
        """Have the table, with these columns, after a read of it. TableError where Spark has no
        such format, or the table cannot take a column in."""
        with self._told():
            self._create_if_missing(columns)
            # Jars of another Spark may fail at the first read, and not before.
            self.rows().select("__offset").limit(1).collect()
        self._evolve(columns)

    def fit(self, columns: pa.Schema) -> None:
        """`make` without the read, for a table that was read when its query began."""
        with self._told():
            self._create_if_missing(columns)
        self._evolve(columns)

    def _create_if_missing(self, columns: pa.Schema) -> None:
        if not self._exists():
            self._create(self.spark.createDataFrame([], spark_schema_of(columns)))

    def _create(self, empty: Any) -> None:
        from pyspark.errors import AnalysisException

        if self.format == ICEBERG:
            empty.writeTo(self.name).using(ICEBERG).create()
            return
        try:
            empty.write.format(DELTA).save(self.path)
        except AnalysisException as error:
            if not _needs_mapping(error):
                raise
            empty.write.format(DELTA).option(_MAPPING, "name").save(self.path)

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

    def columns(self, wanted: pa.Schema, key: Collection[str]) -> pa.Schema:
        """These columns as the table has them, where it has wider types or more fields: its owner
        may have changed them, or a driver that was killed before its batch counted. Columns of the
        key stay, whose digits are a part of every key."""
        has = self._has(wanted.names)
        kept = [one for one in wanted if one.name in key or _is_same(has[one.name], one)]
        return pa.schema(
            [one if one in kept else one.with_type(has[one.name].type) for one in wanted]
        )

    def _has(self, names: Sequence[str]) -> dict[str, pa.Field]:
        """Those of the columns that the table has."""
        schema = self.rows().schema
        known = [schema[name] for name in names if name in schema.names]
        return {one.name: one for one in arrow_schema_of(type(schema)(known))}

    def _evolve(self, columns: pa.Schema) -> None:
        """Have the table's columns be at least these. TableError, before anything is changed, for
        a column that cannot be."""
        has = self._has(columns.names)
        found = [step for column in columns for step in self._steps(has, column)]
        if added := [step for step in found if step.old is None]:
            with self._refusing(added):
                self._add(added)
        if widened := [step for step in found if step.old is not None]:
            self._widen(widened)

    @contextmanager
    def _refusing(self, changed: Sequence[Step]) -> Iterator[None]:
        """Where Spark refuses these changes, raise TableError."""
        from pyspark.errors import PySparkException

        try:
            yield
        except PySparkException as error:
            names = ", ".join(".".join(step.place) for step in changed)
            kinds = ", ".join(map(_kind_of, changed))
            why = str(error).partition("\n")[0]
            raise self._refusal(names, changed[0].old, kinds, why) from error

    def _steps(self, has: Mapping[str, pa.Field], wanted: pa.Field) -> list[Step]:
        """How a column comes to be what is wanted. TableError."""
        old = has.get(wanted.name)
        if old is None:
            return [Step((wanted.name,), None, wanted.type)]
        wide = old.type if _is_same(old, wanted) else wider(old.type, wanted.type)
        if wide is None:
            raise self._refusal(old.name, old.type, str(wanted.type), LOSSLESS)
        found = list(steps(old.name, old.type, wide))
        for one in found:
            if self.format == ICEBERG and _changes_scale(one.old, one.wide):
                why = "Iceberg changes no digits behind the point"
                raise self._refusal(".".join(one.place), one.old, str(one.wide), why)
        return found

    def _refusal(self, name: str, has: pa.DataType | None, wanted: str, why: str) -> TableError:
        others = " or ".join(one for one in (PARQUET, *LAKES) if one != self.format)
        remedy = f"{REMEDY}, with format {others} if that can"
        old = "not" if has is None else str(has)
        return TableError(f"{self.path}: {ColumnChangeError(name, old, wanted, why, remedy)}")

    def _add(self, added: Sequence[Step]) -> None:
        """Add columns and fields, all in one commit."""
        from pyspark.errors import AnalysisException

        wanted = ", ".join(f"{_name_of(step)} {_kind_of(step)}" for step in added)
        try:
            self._alter(f"ADD COLUMNS ({wanted})")
        except AnalysisException as error:
            if not _needs_mapping(error):
                raise
            self._alter(f"SET TBLPROPERTIES ('{_MAPPING}' = 'name')")
            self._alter(f"ADD COLUMNS ({wanted})")

    def _widen(self, widened: Sequence[Step]) -> None:
        """Widen columns and fields, each in a commit of its own."""
        if self.format == DELTA:
            with self._refusing(widened):
                self._alter("SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        for step in widened:
            with self._refusing([step]):
                self._alter(f"ALTER COLUMN {_name_of(step)} TYPE {_kind_of(step)}")

    def _alter(self, change: str) -> None:
        """Spark would put values of settings, mostly nothing, where names have `${...}`."""
        settings = self.spark.conf
        before = settings.get(_SUBSTITUTE)
        try:
            settings.set(_SUBSTITUTE, "false")
            self.spark.sql(f"ALTER TABLE {self.name} {change}")
        finally:
            settings.set(_SUBSTITUTE, before)

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


def spark_schema_of(columns: pa.Schema) -> Any:
    """The columns as Spark has them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(columns, prefer_timestamp_ntz=True)


def arrow_schema_of(schema: Any) -> pa.Schema:
    """Spark's columns as Arrow has them, timestamps in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before Spark 4.2 timestamps are in UTC anyhow.
    names = inspect.signature(to_arrow_schema).parameters
    utc: dict[str, Any] = {"timezone": "UTC"} if "timezone" in names else {}
    return to_arrow_schema(schema, **utc)


def _name_of(step: Step) -> str:
    """The column or field as a statement has it."""
    return ".".join(map(quoted, step.place))


def _kind_of(step: Step) -> str:
    """The type that it gets, likewise."""
    return type_ddl(spark_schema_of(pa.schema([pa.field("", step.wide)]))[0].dataType)


def _is_same(has: pa.Field, wanted: pa.Field) -> bool:
    """Whether they are so for Spark, which has one type of timestamps for all time zones."""
    return bool(spark_schema_of(pa.schema([has])) == spark_schema_of(pa.schema([wanted])))


def _needs_mapping(error: Any) -> bool:
    """Whether Delta wants names of columns apart from those in files: it does for a few
    characters, and only then, since readers must know of it."""
    return bool((error.getCondition() or "").startswith("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAME"))


def _changes_scale(old: pa.DataType | None, wide: pa.DataType) -> bool:
    """Whether a decimal gets another number of digits behind the point."""
    return old is not None and pa.types.is_decimal(old) and old.scale != wide.scale


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

    def run(decoding: Decoding, work: BucketWork) -> list[BucketReport]:
        table = LakeTable(frame.sparkSession, format, place)
        table.fit(work.rules.stored)
        columns = table.columns(work.rules.columns, decoding.key)
        decoding = replace(decoding, columns=columns)
        work = replace(work, rules=replace(work.rules, columns=columns))
        stored = work.rules.stored
        events = events_of(frame, decoding).persist()
        marks = (pa.field("__drop", pa.bool_()), pa.field("__report", pa.string()))
        schema = spark_schema_of(pa.schema([*stored, *marks]))
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
