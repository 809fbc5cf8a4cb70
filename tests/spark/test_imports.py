"""What the processes load that Spark starts: no more than each has to do."""

from __future__ import annotations

import json
import subprocess
import sys

LOADED = """
import json, sys
import pyspark_fencepost
source = pyspark_fencepost.DefaultSource({"subscribe": "t", "kafka.bootstrap.servers": "h:1"})
schema = source.schema()
asked = [name for name in sys.modules if name.startswith(("fencepost.", "pyarrow"))]
source.streamReader(schema).getDefaultReadLimit()
print(json.dumps([asked, list(sys.modules)]))
"""


def test_finding_a_schema_and_planning_load_little():
    """Each is done in a process of its own, which is there for little else."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60
    )
    schema, planning = map(set, json.loads(done.stdout))
    assert schema == {
        "fencepost.spark",
        "fencepost.spark.columns",
        "fencepost.spark.datasource",
        "fencepost.spark.install",
    }
    assert "fencepost.spark.stream_planner" in planning
    needless = {"admin", "batch_producer", "groups", "fetcher", "transactional"}
    assert not planning & {f"fencepost.client.{name}" for name in needless}
    assert not planning & {"fencepost.batch.columns", "fencepost.spark.writer", "pandas"}
    assert "pyarrow.compute" not in planning
