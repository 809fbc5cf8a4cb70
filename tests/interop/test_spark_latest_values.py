"""Tables of latest values in Delta and Iceberg by their own jars and MERGE: right where they fit
the installed Spark, and refused by name where they do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pyspark
import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster

from .conftest import jars_or_skip
from .maven import ROOT
from .test_spark_tables import FITS, JARS, MADE_FOR, TIMEOUT_S, servers as servers

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow, pytest.mark.long]


def merged(format: str, servers: str, directory: Path) -> dict[str, Any]:
    """What the job says."""
    topic = f"latest-{uuid.uuid4().hex[:8]}"
    with Cluster(servers) as cluster:
        Admin(cluster).create_topic(topic, 1)
        Admin(cluster).wait_for_topic(topic)
    jars = ",".join(map(str, jars_or_skip(JARS[format]).jars()))
    module = "tests.interop.latest_values_job"
    done = subprocess.run(
        [sys.executable, "-m", module, jars, format, servers, topic, directory],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.skipif(
    not FITS, reason=f"PySpark is {pyspark.__version__}, the jars are made for {MADE_FOR}x"
)
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_table_has_the_latest_value_of_each_key(format: str, servers: str, tmp_path: Path):
    found = merged(format, servers, tmp_path / "a table")
    assert found["first"] == [[number, f"n{number}", "B"] for number in range(6)]
    second = [[0, "new", "B"], *([number, f"n{number}", "B"] for number in range(2, 6))]
    assert found["second"] == found["skipped"] == found["merged again"] == second
    first, once, again = found["counts"]
    assert (first["upserts"], first["errors"]) == (6, 1)
    assert (once["upserts"], once["deletes"], once["late"]) == (1, 1, 1)
    assert (again["upserts"], again["deletes"]) == (0, 0)
    assert found["third"] == [[7, "g", "G", "m"]]
    assert (found["deleted"], found["types"]) == (0, ["bigint"])


@pytest.mark.skipif(FITS, reason=f"the jars are made for {pyspark.__version__}")
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_jars_of_another_spark_are_refused_before_a_batch(
    format: str, servers: str, tmp_path: Path
):
    found = merged(format, servers, tmp_path / "a table")
    assert f"format {format!r}: the package is made for another Spark than" in found["refused"]
    assert not (tmp_path / "a table" / "_table").exists()
