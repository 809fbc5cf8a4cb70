"""Maintenance of archives that are tables, by the formats' own commands.

Compaction makes few files of many in one commit; batches may be archived meanwhile. What it
replaces stays for readers of older versions of the table, until maintenance removes it:

* Delta: `OPTIMIZE`, then `VACUUM`. The numbers of the query's batches are in the table's log, which
  keeps them;
* Iceberg: `rewrite_data_files` and `rewrite_manifests`, then `expire_snapshots` and
  `remove_orphan_files`. Iceberg knows a query's last batch by the newest snapshot that has it, and
  looks for that from the current one back. So that snapshot, and all that came after it, stay,
  whatever the retention: without it a batch that Spark runs again would be there twice.

Files younger than the retention stay: readers may have begun with them, and tasks of a batch that
is not committed yet write them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fencepost.arrow.archive.layout import ArchiveError, Layout
from fencepost.arrow.archive.state import PARQUET, checkpoint_of, read_state
from fencepost.arrow.checkpoint import read_checkpoint
from fencepost.spark.archive.compaction import Compacted, compact
from fencepost.spark.archive.lakes import DELTA, ICEBERG
from fencepost.spark.archive.running import Run
from fencepost.spark.archive.tables import TABLE, iceberg_table, told_plainly
from fencepost.spark.ddl import quoted

RETENTION: Final = timedelta(days=7)
RETENTION_MIN: Final = timedelta(days=1)
"""Shorter ones could remove what a running batch has written: Iceberg refuses them as well."""
DELTA_CHECK: Final = "spark.databricks.delta.retentionDurationCheck.enabled"
LISTING_TASKS: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
NOTHING: Final = Compacted(0, 0, 0, 0, 0, 0)
_QUERY: Final = "spark.sql.streaming.queryId"


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done; 0 where the format does not tell."""

    compacted: Compacted
    snapshots_expired: int
    files_removed: int


def maintain(
    spark: Any,
    layout: Layout,
    run: Run,
    target_bytes: int,
    retention: timedelta = RETENTION,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> Maintained:
    """Compact an archive of any format, and remove what is not needed. ArchiveError,
    PySparkException, OSError."""
    format = read_state(layout).data_format
    if format != PARQUET:
        return maintain_table(spark, layout, format, target_bytes, retention)
    done = compact(layout, run, target_bytes=target_bytes, discard=True, on_progress=on_progress)
    return Maintained(done, 0, 0)


def compact_table(spark: Any, layout: Layout, format: str, target_bytes: int) -> Compacted:
    """Make few files of many. ArchiveError for formats that have no command for it;
    PySparkException."""
    with told_plainly(format, spark.version):
        if format == DELTA:
            return _optimize(spark, layout, target_bytes)
        if format == ICEBERG:
            return _rewrite(spark, layout, target_bytes)
    raise ArchiveError(f"{layout}: only Parquet, Delta and Iceberg are compacted, not {format}")


def maintain_table(
    spark: Any,
    layout: Layout,
    format: str,
    target_bytes: int,
    retention: timedelta = RETENTION,
) -> Maintained:
    """Compact, and remove what no version of the table younger than `retention` has. ArchiveError
    for a retention under a day, and for formats without commands; PySparkException."""
    if retention < RETENTION_MIN:
        raise ArchiveError(
            f"a retention of {retention.total_seconds() / 3600:g} hours could remove what a batch "
            "is writing: at least 24"
        )
    compacted = compact_table(spark, layout, format, target_bytes)
    with told_plainly(format, spark.version):
        if format == DELTA:
            return Maintained(compacted, 0, _vacuum(spark, layout, retention))
        expired = _expire(spark, layout, retention)
        return Maintained(compacted, expired, _remove_orphans(spark, layout, retention))


def _optimize(spark: Any, layout: Layout, target_bytes: int) -> Compacted:
    spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(target_bytes))
    spark.conf.set("spark.databricks.delta.optimize.minFileSize", str(target_bytes // 2 + 1))
    done = spark.sql(f"OPTIMIZE {_delta(layout)}").first().metrics
    if not done.numFilesRemoved:
        return NOTHING
    return Compacted(
        int(done.partitionsOptimized),
        int(done.numFilesRemoved),
        int(done.numFilesAdded),
        _rows_optimized(spark, layout),
        int(done.filesRemoved.totalSize),
        int(done.filesAdded.totalSize),
    )


def _rows_optimized(spark: Any, layout: Layout) -> int:
    """How many rows the files have that the newest `OPTIMIZE` wrote; 0 where the table keeps no
    statistics. Neither the command nor `DESCRIBE HISTORY` has their number, the commit does."""
    from pyspark.sql import functions as F  # noqa: N812

    history = spark.sql(f"DESCRIBE HISTORY {_delta(layout)}").where("operation = 'OPTIMIZE'")
    version = history.agg(F.max("version")).first()[0]
    commit = layout.for_spark(f"{TABLE}/_delta_log/{version:020}.json")
    stats = spark.read.schema("add struct<stats string>").json(commit).select("add.stats")
    rows = stats.agg(F.sum(F.get_json_object("stats", "$.numRecords").cast("long"))).first()[0]
    return int(rows or 0)


def _vacuum(spark: Any, layout: Layout, retention: timedelta) -> int:
    """Delta refuses less than a week unless that is switched off; more than a day is safe here, as
    an archive's batches do not take days."""
    chosen = {DELTA_CHECK: "false", LISTING_TASKS: str(_listing_tasks(spark))}
    before = {name: spark.conf.get(name, None) for name in chosen}
    try:
        for name, value in chosen.items():
            spark.conf.set(name, value)
        hours = retention.total_seconds() / 3600
        spark.sql(f"VACUUM {_delta(layout)} RETAIN {hours:g} HOURS")
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)
    ended = [
        row.operationMetrics
        for row in spark.sql(f"DESCRIBE HISTORY {_delta(layout)} LIMIT 2").collect()
        if row.operation == "VACUUM END"
    ]
    return int((ended[0] or {}).get("numDeletedFiles", 0)) if ended else 0


def _listing_tasks(spark: Any) -> int:
    """Delta's `VACUUM` lists a table in as many tasks as this setting says, 10,000 unless it is
    set, however few directories there are. As many as a shuffle has are enough."""
    tasks = int(spark.conf.get(LISTING_TASKS, "10000"))
    shuffled = spark.conf.get("spark.sql.shuffle.partitions", "200")
    return min(tasks, int(shuffled)) if shuffled.isdecimal() else tasks


def _delta(layout: Layout) -> str:
    return f"delta.{quoted(layout.for_spark(TABLE))}"


def _rewrite(spark: Any, layout: Layout, target_bytes: int) -> Compacted:
    table = iceberg_table(spark, layout)
    done = _call(
        spark,
        table,
        "rewrite_data_files",
        options=f"map('target-file-size-bytes', '{target_bytes}', 'min-input-files', '2')",
    )
    if not done.rewritten_data_files_count:
        return NOTHING
    replaced = spark.sql(
        f"SELECT summary FROM {table}.snapshots WHERE operation = 'replace' "
        "ORDER BY committed_at DESC LIMIT 1"
    ).first()
    return Compacted(
        *(
            int(replaced.summary[key])
            for key in (
                "changed-partition-count",
                "deleted-data-files",
                "added-data-files",
                "added-records",
                "removed-files-size",
                "added-files-size",
            )
        )
    )


def _expire(spark: Any, layout: Layout, retention: timedelta) -> int:
    """How many snapshots went; see the module for those that stay."""
    table = iceberg_table(spark, layout)
    _call(spark, table, "rewrite_manifests")
    snapshots = {
        row.snapshot_id: row
        for row in spark.sql(
            f"SELECT snapshot_id, parent_id, summary FROM {table}.snapshots"
        ).collect()
    }
    current = spark.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").first()
    if current is None:
        return 0
    query = read_checkpoint(checkpoint_of(layout, read_state(layout))).query_id
    kept = snapshots_to_keep(snapshots, current.snapshot_id, query or "")
    before = datetime.now(UTC) - retention
    _call(
        spark,
        table,
        "expire_snapshots",
        older_than=f"TIMESTAMP '{before:%Y-%m-%d %H:%M:%S} UTC'",
        retain_last=str(kept),
    )
    left = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots").count()
    return len(snapshots) - int(left)


def snapshots_to_keep(snapshots: Mapping[int, Any], current: int, query: str) -> int:
    """How many of the newest snapshots there must be at least: down to the newest that has a batch
    of the query; all that are there, if none has one, or the chain is broken. Rows of
    `TABLE.snapshots` by their ids."""
    count = 0
    at: int | None = current
    while at is not None and at in snapshots:
        count += 1
        if (snapshots[at].summary or {}).get(_QUERY) == query:
            return count
        at = snapshots[at].parent_id
    return max(count, 1)


def _remove_orphans(spark: Any, layout: Layout, retention: timedelta) -> int:
    table = iceberg_table(spark, layout)
    before = datetime.now(UTC) - max(retention, RETENTION_MIN + timedelta(minutes=1))
    catalog, _, name = table.partition(".")
    removed = spark.sql(
        f"CALL {catalog}.system.remove_orphan_files(table => '{name}', "
        f"older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S} UTC')"
    )
    return int(removed.count())


def _call(spark: Any, table: str, procedure: str, **arguments: str) -> Any:
    """The first row of what one of Iceberg's procedures answers."""
    assert re.fullmatch(r"\w+\.\w+", table), table
    catalog, _, name = table.partition(".")
    words = ", ".join([f"table => '{name}'", *(f"{k} => {v}" for k, v in arguments.items())])
    return spark.sql(f"CALL {catalog}.system.{procedure}({words})").first()
