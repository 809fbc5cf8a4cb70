"""An audit on a standalone cluster of two workers, one of which may die."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.testing.spark_standalone import SparkStandalone

from ..on_both_workers import ON_BOTH, workers_of_applications
from .test_audit import rewrite
from .world import audit, batches_of, copy_replica, flip, make_replica, segment

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes in /proc"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Path:
    """Three replicas; the second has other records, the third a corrupt batch."""
    first = make_replica(tmp_path_factory.mktemp("cluster") / "1")
    second, third = copy_replica(first, 2), copy_replica(first, 3)
    rewrite(segment(second, "orders-1", 12), 1)
    path = segment(third, "other-0", 16)
    flip(path, batches_of(path)[0] + 70)
    return first.parent


def command(spark: SparkStandalone, *words: str) -> list[str]:
    confs = [f"--conf={name}={value}" for name, value in (spark.settings | ON_BOTH).items()]
    fencepost = [sys.executable, "-m", "fencepost.cli.main", "audit"]
    return [*fencepost, "--master", spark.master_url, *confs, "--json", *words]


def test_two_workers_find_what_one_process_does(cluster: Path):
    with SparkStandalone(workers=2) as spark:
        ran = subprocess.run(
            command(spark, str(cluster)), capture_output=True, text=True, timeout=600, check=False
        )
        assert ran.returncode == 1, ran.stderr
        assert workers_of_applications(spark) == [{0, 1}]
    found = json.loads(ran.stdout)
    assert found["findings"] == [one._asdict() for one in audit(cluster).findings]
    assert "comparing replicas: " in ran.stderr


def test_a_worker_that_dies_costs_time_alone(cluster: Path):
    with SparkStandalone(workers=2) as spark:
        running = subprocess.Popen(
            command(spark, str(cluster)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert running.stderr is not None
            for line in running.stderr:  # until the first step is done, by both
                if line.startswith("listing: "):
                    break
            spark.kill_worker(0)
            output, errors = running.communicate(timeout=600)
        finally:
            running.kill()
        assert running.returncode == 1, errors
    assert json.loads(output)["findings"] == [one._asdict() for one in audit(cluster).findings]
