"""What the processes load that Spark starts: no more than each has to do."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

LOADED = """
import json, sys
import pyspark_fencepost
source = pyspark_fencepost.DefaultSource({"subscribe": "t", "kafka.bootstrap.servers": "h:1"})
schema = source.schema()
asked = [name for name in sys.modules if name.startswith(("fencepost.", "pyarrow"))]
reader = source.streamReader(schema)
if sys.modules["fencepost.spark.stream"].HAS_ADMISSION_CONTROL:  # PySpark 4.1 asks for no limit
    reader.getDefaultReadLimit()
print(json.dumps([asked, list(sys.modules)]))
"""

READ = """
import gc, json, sys
import pyspark.worker, pyspark.sql.worker.plan_data_source_read  # as a worker loads them
from pyspark import TaskContext
from fencepost.batch.columns import decode_columns
from fencepost.batch.records import BatchBuilder
from fencepost.spark.collector import freeze_loaded
from fencepost.spark.columns import default_schema
from fencepost.spark.projection import Projection
import fencepost.spark.tasks
builder = BatchBuilder("none")
builder.append(b"k", b"v", [("h", b"x")], timestamp_ms=1)
projection = Projection(default_schema(include_headers=True))
decoded = decode_columns(builder.build(), topic="t", partition=3, columns=projection.columns)
batches = list(projection.apply(decoded))
loaded = list(sys.modules)
(row,) = batches[0].select(["topic", "partition"]).to_pylist()
frozen, kept = [], []
for context in (None, TaskContext(), TaskContext()):
    TaskContext._setTaskContext(context)
    freeze_loaded()
    frozen.append(gc.get_freeze_count())
    kept += [[] for _ in range(1000)]
print(json.dumps([row, frozen, loaded]))
"""


def run(script: str) -> list[Any]:
    """What a fresh process prints."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300
    )
    printed: list[Any] = json.loads(done.stdout)
    return printed


def test_a_reading_task_loads_no_pandas_and_hides_what_is_loaded_from_the_collector():
    """Spark's daemon collects garbage behind every task."""
    row, frozen, loaded = run(READ)
    assert row == {"topic": "t", "partition": 3}
    assert "pandas" not in loaded
    assert frozen[0] == 0  # a driver
    assert frozen[1] > 10_000  # a worker's first task
    assert frozen[2] <= frozen[1]  # what came later is collected as ever


def test_finding_a_schema_and_planning_load_little():
    """Each is done in a process of its own, which is there for little else."""
    schema, planning = map(set, run(LOADED))
    assert schema == {
        "fencepost.spark",
        "fencepost.spark.columns",
        "fencepost.spark.datasource",
        "fencepost.spark.idempotency",
        "fencepost.spark.install",
    }
    assert "fencepost.arrow.stream_planner" in planning
    needless = {"admin", "batch_producer", "groups", "fetcher", "transactional"}
    assert not planning & {f"fencepost.client.{name}" for name in needless}
    assert not planning & {"fencepost.batch.columns", "fencepost.spark.writer", "pandas"}
    assert "pyarrow.compute" not in planning
