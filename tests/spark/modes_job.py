"""All that the data source does, in a session of a kind of its own: in a process that tests start.

    python modes_job.py MASTER SERVERS TOPIC FOLDER

MASTER is a Spark master, or `connect` for a Spark Connect server in another process and a session
that is remote. Prints one JSON object with what was found.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any

COUNT = 600


def main(master: str, servers: str, topic: str, folder: str) -> None:
    from fencepost.spark.java import ensure_java_home

    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = session(master)
    import fencepost.spark

    fencepost.spark.install(spark)
    job = Job(spark, servers, topic, folder)
    found = {
        "session": type(spark).__module__,
        "batch": job.batch(),
        "executors": job.executors(),
        "stream": job.stream(),
        "exactly once": job.exactly_once(),
        "written exactly once": job.write_exactly_once(),
        # By foreachBatch, for which Connect starts a worker that must answer within 10 s.
        "update": job.update() if master != "connect" else [],
        "conditions": job.conditions(),
    }
    print("found", json.dumps(found), flush=True)
    fencepost.spark.uninstall()
    spark.stop()


def session(master: str) -> Any:
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    builder = builder.remote("local[2]") if master == "connect" else builder.master(master)
    return (
        builder.config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .getOrCreate()
    )


class Job:
    def __init__(self, spark: Any, servers: str, topic: str, folder: str) -> None:
        self.spark, self.servers, self.topic, self.folder = spark, servers, topic, folder

    def options(self, frame: Any, **options: str) -> Any:
        return frame.option("kafka.bootstrap.servers", self.servers).options(**options)

    def values(self, topic: str, **options: str) -> list[int]:
        frame = self.options(self.spark.read.format("fencepost"), subscribe=topic, **options)
        rows = frame.load().selectExpr("int(string(value)) number").collect()
        return sorted(row.number for row in rows)

    def batch(self) -> int:
        """At least once, by the name and without the mode that Spark's connector has."""
        rows = (
            self.spark.range(COUNT).repartition(4).selectExpr("string(id) key", "string(id) value")
        )
        self.options(rows.write.format("kafka"), topic=self.topic).save()
        found = self.values(self.topic)
        assert found == list(range(COUNT)), found
        return len(found)

    def executors(self) -> int:
        """How many processes have read: a task says the pid of what it runs below."""
        from pyspark.sql.functions import udf
        from pyspark.sql.types import LongType

        frame = self.options(self.spark.read.format("fencepost"), subscribe=self.topic)
        parent = udf(lambda _: os.getppid(), LongType())
        rows = frame.load().repartition(8).select(parent("offset").alias("pid"))
        return rows.distinct().count()

    def source(self, **options: str) -> Any:
        chosen = {"subscribe": self.topic, "startingOffsets": "earliest", **options}
        return self.options(self.spark.readStream.format("kafka"), **chosen).load()

    def run(self, rows: Any, name: str, **options: str) -> Any:
        return (
            rows.writeStream.format("kafka")
            .queryName(name)
            .option("kafka.bootstrap.servers", self.servers)
            .option("topic", f"{self.topic}-{name}")
            .option("checkpointLocation", f"{self.folder}/{name}")
            .options(**options)
            .trigger(availableNow=True)
        )

    def stream(self) -> list[int]:
        """Rows of each batch, limited, with a listener that tells the lag."""
        from fencepost.spark.listener import LagListener

        said: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: said.append(  # type: ignore[method-assign]
            record.getMessage()
        )
        logging.getLogger("fencepost.spark.lag").addHandler(handler)
        logging.getLogger("fencepost.spark.lag").setLevel(logging.INFO)
        listener = LagListener({"bootstrap.servers": self.servers}, interval_s=1)
        self.spark.streams.addListener(listener)
        query = self.run(self.source(maxOffsetsPerTrigger="250"), "copied").start()
        query.awaitTermination()
        assert query.exception() is None
        while not any("query copied" in text and " 0 records behind" in text for text in said):
            time.sleep(0.1)  # the test has a deadline
        self.spark.streams.removeListener(listener)
        listener.close()
        assert self.values(f"{self.topic}-copied") == list(range(COUNT))
        # By the attribute: under its name in the JSON that Spark Connect sends there is none.
        return [progress.numInputRows for progress in query.recentProgress]

    def exactly_once(self) -> list[int]:
        """Two runs with one checkpoint; rows that are committed."""
        counts = []
        for _ in range(2):
            rows = self.source(maxOffsetsPerTrigger="400")
            query = self.run(rows, "once", deliveryGuarantee="exactly-once").start()
            query.awaitTermination()
            assert query.exception() is None
            level = {"kafka.isolation.level": "read_committed"}
            found = self.values(f"{self.topic}-once", **level)
            assert found == list(range(COUNT)), found
            counts.append(len(found))
        return counts

    def write_exactly_once(self) -> int:
        chosen = {"deliveryGuarantee": "exactly-once", "topic": f"{self.topic}-batch"}
        rows = self.spark.range(50).repartition(3).selectExpr("string(id) value")
        self.options(rows.write.format("kafka"), **chosen).save()
        found = self.values(chosen["topic"], **{"kafka.isolation.level": "read_committed"})
        assert found == list(range(50)), found
        return len(found)

    def update(self) -> list[int]:
        """Output mode update, which `install` writes by foreachBatch."""
        counted = self.source().groupBy("partition").count().selectExpr("string(count) value")
        query = self.run(counted, "update").outputMode("update").start()
        query.awaitTermination()
        assert query.exception() is None
        return self.values(f"{self.topic}-update")

    def conditions(self) -> dict[str, Any]:
        """Conditions of errors that came through the session, with the names of parameters."""
        many = json.dumps({self.topic: {str(number): 0 for number in range(500)}})
        nowhere = self.options(
            self.spark.sql("SELECT CAST(NULL AS STRING) topic, 'x' value").write.format("kafka")
        )
        ahead = json.dumps({self.topic: {str(number): 10_000 for number in range(3)}})
        query = self.run(self.source(startingOffsets=ahead), "copied").option(
            "checkpointLocation", f"{self.folder}/ahead"
        )
        running = query.start()
        return {
            "option": caught(lambda: self.values(self.topic, startingOffsets="soon")),
            "long text": caught(lambda: self.values(self.topic, startingOffsets=many)),
            "in a task": caught(nowhere.save),
            "in a stream": caught(running.awaitTermination),
            "afterwards": described(running.exception()),
            "of Spark": caught(lambda: self.spark.sql("SELECT no_such_column").collect()),
        }


def caught(action: Callable[[], object]) -> list[Any]:
    try:
        action()
    except Exception as error:  # noqa: BLE001
        return described(error)
    return ["no error"]


def described(error: Any) -> list[Any]:
    from fencepost.spark.errors import condition_of

    found = condition_of(error)
    return [found.name, sorted(found.parameters)] if found else ["none", type(error).__name__]


if __name__ == "__main__":
    main(*sys.argv[1:])
