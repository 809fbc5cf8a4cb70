"""A standalone cluster of Spark: an application on two workers, one of which dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.testing.sessions import is_running
from fencepost.testing.spark_standalone import SparkStandalone

from ..spark.on_both_workers import ON_BOTH, workers_of_applications

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes in /proc"),
]
JOB = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master(sys.argv[1])
for name, value in json.loads(sys.argv[2]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
rows = spark.sparkContext.parallelize(range(64), 16)
print(rows.sum())
spark.stop()
"""


def test_an_application_runs_on_both_workers_and_nothing_is_left():
    with SparkStandalone(workers=2) as spark:
        pids = [pid for worker in spark.workers for pid in worker.members]
        command = [
            sys.executable,
            "-c",
            JOB,
            spark.master_url,
            json.dumps(spark.settings | ON_BOTH),
        ]
        environ = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        ran = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=600, check=False
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.split() == [str(sum(range(64)))]
        assert workers_of_applications(spark) == [{0, 1}]
        spark.kill_worker(0)
        assert not any(map(is_running, spark.workers[0].members))
        assert any(map(is_running, spark.workers[1].members))
    assert not spark.directory.exists()
    assert len(pids) >= 2
    assert not any(map(is_running, pids))
