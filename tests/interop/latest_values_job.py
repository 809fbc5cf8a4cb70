"""A table of latest values in a table format, in a process of its own: JARS FORMAT SERVERS TOPIC
DIRECTORY.

Takes a topic of Debezium's changes in in three runs with records sent between them; one batch is
run again as a driver does that died between the MERGE and the version, another as one that died
before Spark noted the end of it. Prints what the table has after each step, or `refused`, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer
from fencepost.spark.archive.lakes import SETTINGS as OF_FORMATS
from fencepost.spark.java import ensure_java_home
from fencepost.spark.tables import MergeOptions, TableError, latest, read
from fencepost.spark.tables.lakes import ROWS

from ..spark.late_workers import run_despite_late_workers
from ..spark.tables.worlds import envelope, key_of, row_of
from .tables_job import SETTINGS

SCHEMA = "id int, name string, big string, at timestamp, wall timestamp_ntz, price decimal(9,2)"
TIMES = {"at": "2026-11-29T12:00:00Z", "wall": "2026-11-29T12:00:00", "price": "1.50"}
ZONE = {"spark.sql.session.timeZone": "Asia/Tokyo"}


def main() -> None:
    jars, format, servers, topic, directory = sys.argv[1:]
    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
    for name, value in {**SETTINGS, **ZONE, **OF_FORMATS[format]}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        found = merged(spark, format, servers, topic, Path(directory))
    except TableError as error:
        found = {"refused": str(error)}
    print(json.dumps(found))
    spark.stop()


def merged(spark: Any, format: str, servers: str, topic: str, place: Path) -> dict[str, Any]:
    source = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    counts: list[dict[str, int]] = []

    def run(schema: str = SCHEMA) -> list[Any]:
        def run_once() -> None:
            query = latest(
                spark,
                source,
                place,
                decode="debezium",
                schema=schema,
                key="id",
                buckets=2,
                format=format,
                options=MergeOptions(on_error="keep"),
                on_batch=lambda version: counts.append(dict(version.counts)),
            )
            try:
                query.awaitTermination()
            finally:
                query.stop()

        run_despite_late_workers(run_once)
        columns = ["id", "name", "big", *(["bucket"] if "bucket" in schema else [])]
        return sorted(tuple(row) for row in read(spark, place).select(*columns).collect())

    def send(*records: tuple[Any, Any]) -> None:
        with Cluster(servers) as cluster, Producer(cluster) as producer:
            for key, value in records:
                producer.send(topic, value, key)

    found: dict[str, Any] = {}
    rows = ({**row_of(n, f"n{n}", "B"), **TIMES} for n in range(6))
    send(*((key_of(n), envelope("c", n + 1, after=row)) for n, row in enumerate(rows)))
    send((key_of(9), b"nonsense"))
    found["first"] = run()
    typed = ("unix_seconds(at)", "cast(wall AS string)", "cast(price AS string)")
    found["typed"] = [
        list(row) for row in read(spark, place).selectExpr(*typed).distinct().collect()
    ]
    send(
        (key_of(0), envelope("u", 20, after=row_of(0, "new"))),
        (key_of(1), envelope("d", 21)),
        (key_of(1), None),
        (key_of(1), envelope("u", 2, after=row_of(1, "late", "B"))),
    )
    found["second"] = run()
    forget(place, "commits")
    found["skipped"] = run()
    forget(place, "commits")
    forget_version(place)
    found["merged again"] = run()
    found["counts"] = list(counts)
    send(
        (None, envelope("t", 30)),
        (key_of(7), envelope("c", 31, after={**row_of(7, "g", "G"), "bucket": "m"})),
    )
    found["third"] = run(SCHEMA.replace("int", "long") + ", bucket string")
    stored = spark.read.format(format).load(f"file:{place}/{ROWS}")
    found["deleted"] = stored.where("__deleted").count()
    found["types"] = [stored.schema["id"].dataType.simpleString()]
    return found


def forget(place: Path, log: str) -> None:
    """As if Spark had died before its own note of the last batch."""
    directory = place / "_table/checkpoint" / log
    last = max(int(path.name) for path in directory.glob("[0-9]*"))
    for path in (directory / str(last), directory / f".{last}.crc"):
        path.unlink(missing_ok=True)


def forget_version(place: Path) -> None:
    """As if the driver had died before it created the newest version."""
    versions = sorted((place / "_table/versions").iterdir())
    versions[-1].unlink()
    hint = {"oldest": 1, "newest": len(versions) - 1}
    (place / "_table/latest.json").write_text(json.dumps(hint))


if __name__ == "__main__":
    main()
