"""An archive in a table format, in a process of its own: JARS FORMAT SERVERS TOPIC DIRECTORY.

Archives the topic in two runs with records sent between them, runs its last batch again as a driver
does that died before Spark noted the end of it, compacts, and does so once more. Then replays it
into TOPIC-again, with tasks that fail in the second step, and goes on. Prints what the table has
after each step, or `refused`, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from fencepost.arrow.archive.layout import CHECKPOINT
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer
from fencepost.spark.archive import ArchiveError, Layout, archive_topics, in_tasks, replay
from fencepost.spark.archive.lakes import SETTINGS as OF_FORMATS
from fencepost.spark.archive.maintaining import _expire, compact_table, maintain
from fencepost.spark.archive.replay_task import Work
from fencepost.spark.archive.replaying import StepDone
from fencepost.spark.archive.tables import TABLE, iceberg_table
from fencepost.spark.java import ensure_java_home
from fencepost.spark.options import sink_options

from ..spark.late_workers import run_despite_late_workers

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def main() -> None:
    jars, format, servers, topic, directory = sys.argv[1:]
    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
    for name, value in {**SETTINGS, **OF_FORMATS[format]}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        found = archived(spark, format, servers, topic, Layout(directory))
    except ArchiveError as error:
        found = {"refused": str(error)}
    print(json.dumps(found))
    spark.stop()


def archived(spark: Any, format: str, servers: str, topic: str, layout: Layout) -> dict[str, Any]:
    source = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    path = f"file:{layout.directory / TABLE}"

    def run_once() -> None:
        query = archive_topics(spark, source, layout.directory, format=format)
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def run() -> list[int]:
        run_despite_late_workers(run_once)
        table = spark.read.format(format).load(path)
        return [table.count(), table.select("partition", "offset").distinct().count()]

    found: dict[str, Any] = {"first": run()}
    alter_columns(spark, format, layout)
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        for number in range(60):
            producer.send(topic, b"more", partition=number % 3)
    found["second"] = run()
    forget_last_commit(layout)
    found["again"] = run()
    found["compacted"] = compacted(spark, layout, format)
    forget_last_commit(layout)
    found["again after it"] = run()
    found["compacted again"] = compacted(spark, layout, format)
    if format == "iceberg":
        found["partitions"] = spark.read.format(format).load(f"{path}#partitions").count()
        # As if all snapshots were old.
        found["expired"] = _expire(spark, layout, timedelta(minutes=-5))
        found["snapshots"] = spark.read.format(format).load(f"{path}#snapshots").count()
    done = maintain(spark, layout, in_tasks(spark), 1 << 28, timedelta(days=1))
    found["maintained"] = [done.compacted.files_before, done.snapshots_expired, done.files_removed]
    forget_last_commit(layout)
    found["again after maintenance"] = run()
    first = spark.read.format(format).load(path).orderBy("partition", "offset").first()
    stored = spark.read.format(format).load(path).schema
    found["partition"] = stored["partition"].dataType.simpleString()
    found["notes"] = spark.read.format(format).load(path).where("note is null").count()
    found["record"] = [first.topic, bytes(first.key).decode(), bytes(first.value).decode()]
    found["replayed"] = replayed(spark, servers, topic, layout)
    return found


def replayed(spark: Any, servers: str, topic: str, layout: Layout) -> list[int]:
    """How many rows each step had that was committed."""
    options = sink_options(
        {
            "kafka.bootstrap.servers": servers,
            "topic": f"{topic}-again",
            "deliveryGuarantee": "exactly-once",
            "keepTimestamps": "true",
        }
    )
    steps: list[int] = []

    def run(work: Any, pieces: Any) -> Any:
        done = in_tasks(spark)(work, pieces)
        if len(steps) == 1 and not failed and isinstance(pieces[0], Work):
            failed.append(True)
            raise RuntimeError("of the second step")
        return done

    def note(done: StepDone) -> None:
        steps.append(done.rows)

    failed: list[bool] = []
    for expected in (True, False):
        try:
            replay(layout, options, run, name="r", step_records=50, spark=spark, on_step=note)
        except RuntimeError:
            assert expected
    return steps


def alter_columns(spark: Any, format: str, layout: Layout) -> None:
    """As the table's owner may; what is archived later leaves the new one empty."""
    delta = f"delta.`{layout.for_spark(TABLE)}`"
    table = delta if format == "delta" else iceberg_table(spark, layout)
    spark.sql(f"ALTER TABLE {table} ADD COLUMN note string")
    if format == "delta":
        widening = "'delta.enableTypeWidening' = 'true'"
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({widening})")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN partition TYPE bigint")


def forget_last_commit(layout: Layout) -> None:
    """As if Spark had died between the sink's commit and its own note of it."""
    commits = layout.local(CHECKPOINT) / "commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    for path in (commits / str(last), commits / f".{last}.crc"):
        Path(path).unlink(missing_ok=True)


def compacted(spark: Any, layout: Layout, format: str) -> list[int]:
    done = compact_table(spark, layout, format, 1 << 28)
    return [done.directories, done.files_before, done.files_after, done.rows]


if __name__ == "__main__":
    main()
