"""A driver for a standalone cluster, in a process of its own: copies a topic exactly once.

    python standalone_job.py SETTINGS

SETTINGS is a JSON object: `master`, `conf` (of Spark), `options` (of source and sink), `source`,
`target`, `place` (a directory that all see), `kind` (what happens to tasks meanwhile). It prints
`found {...}` last.

Tasks leave a file for every attempt in `place`, named for the kind, partition, attempt and the
executor's process, so that a test can tell what happened. Kinds:

* `slow`: the first attempt of partition 0 takes its time until a second one has ended, as it only
  does when Spark speculates;
* `killed`: in the middle of partition 1, once, the executor of the task gets a SIGKILL.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

from fencepost.spark.java import ensure_java_home

WAIT_S = 300


def parent_of(pid: int) -> int:
    """The process that started it (Linux)."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def disturbed(kind: str, place: str) -> Any:
    """What goes over the rows of a task."""

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        executor = parent_of(os.getppid())  # of the daemon that forks workers
        name = f"{context.partitionId()}-{context.attemptNumber()}-{executor}"
        Path(place, f"begun-{name}").touch()
        for number, batch in enumerate(batches):
            if kind == "slow" and context.partitionId() == 0 and context.attemptNumber() == 0:
                yield batch.slice(0, batch.num_rows // 2)
                deadline = time.monotonic() + WAIT_S
                while not list(Path(place).glob("done-0-1-*")) and time.monotonic() < deadline:
                    time.sleep(0.1)
                time.sleep(1)
                yield batch.slice(batch.num_rows // 2)
            elif kind == "killed" and context.partitionId() == 1 and number == 0:
                yield batch.slice(0, batch.num_rows // 2)
                marker = Path(place, "killed")
                if not marker.exists():
                    marker.touch()
                    os.kill(executor, signal.SIGKILL)
                    time.sleep(WAIT_S)
                yield batch.slice(batch.num_rows // 2)
            else:
                yield batch
        Path(place, f"done-{name}").touch()

    return rows


def main(settings: dict[str, Any]) -> None:
    ensure_java_home()
    builder = SparkSession.builder.master(settings["master"]).appName("standalone")
    for name, value in settings["conf"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    options = settings["options"]
    rows = (
        spark.readStream.format("fencepost")
        .options(**options, subscribe=settings["source"], startingOffsets="earliest")
        .options(**settings.get("read", {}))
        .load()
        .select("key", "value")
    )
    changed = rows.mapInArrow(
        disturbed(settings["kind"], settings["place"]), "key binary, value binary"
    )
    query = (
        changed.writeStream.format("fencepost")
        .options(**options, topic=settings["target"], deliveryGuarantee="exactly-once")
        .option("checkpointLocation", f"{settings['place']}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copied = (
        spark.read.format("fencepost")
        .options(**options, subscribe=settings["target"])
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    values = sorted(int(row.value) for row in copied.select("value").collect())
    print(f"found {json.dumps({'values': values})}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
