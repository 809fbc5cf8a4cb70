"""Other kinds of sessions than the one in this process: two executors, and Spark Connect."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]
JOB = Path(__file__).with_name("modes_job.py")
PARTITIONS = 3
AHEAD = ["KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED", ["newOffset", "prevOffset", "topicPartition"]]
CONDITIONS = {
    "option": ["FENCEPOST_INVALID_OPTION", ["allowed", "option", "value"]],
    "long text": [
        "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED",
        ["assignedPartitions", "specifiedPartitions"],
    ],
    "in a task": ["KAFKA_NULL_TOPIC_IN_DATA", []],
    "in a stream": AHEAD,
    "afterwards": AHEAD,
    "of Spark": ["none", "AnalysisException"],
}


def run(master: str, served: str, topic: str, folder: Path) -> dict[str, Any]:
    with Cluster(served) as cluster:
        admin = Admin(cluster)
        for name in ("", "-copied", "-once", "-batch", "-update"):
            admin.create_topic(f"{topic}{name}", PARTITIONS)
            admin.wait_for_topic(f"{topic}{name}")
    done = subprocess.run(
        [sys.executable, str(JOB), master, served, topic, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=folder,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("found ")]
    # The job's own traceback: behind it Spark writes at length about executors that end with it.
    assert lines, done.stderr[max(done.stderr.rfind("Traceback"), 0) :][:5000]
    found: dict[str, Any] = json.loads(lines[0].removeprefix("found "))
    return found


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "connect"])
def test_everything_works_in(master: str, served: str, topic: str, tmp_path: Path):
    found = run(master, served, topic, tmp_path)
    kind = "pyspark.sql.connect.session" if master == "connect" else "pyspark.sql.session"
    assert found.pop("session") == kind
    assert (found.pop("executors") >= 2) or master == "connect"
    batches = found.pop("stream")
    assert (len(batches), sum(batches)) == (3, 600)
    assert max(batches) <= 250
    counts = found.pop("update")
    assert sum(counts) == (0 if master == "connect" else 600)
    assert found == {
        "batch": 600,
        "exactly once": [600, 600],
        "written exactly once": 50,
        "conditions": CONDITIONS,
    }
