"""Tables of latest values in Delta and Iceberg by their own jars and MERGE: right where they fit
the installed Spark, and refused by name where they do not."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster

from .conftest import jars_or_skip
from .pysparks import INSTALLED, answer_of, python_with
from .test_spark_tables import LISTED, PACKAGES, jar_set, servers as servers

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(1900),
]
TIMEOUT_S = 1800


def merged(format: str, minor: str, servers: str, directory: Path, python: str) -> dict[str, Any]:
    """What the job says, by this interpreter with the jars that are made for a Spark."""
    topic = f"latest-{uuid.uuid4().hex[:8]}"
    with Cluster(servers) as cluster:
        Admin(cluster).create_topic(topic, 1)
        Admin(cluster).wait_for_topic(topic)
    jars = ",".join(map(str, jars_or_skip(jar_set(format, minor)).jars()))
    module = "tests.interop.latest_values_job"
    given = (jars, format, servers, topic, directory)
    return answer_of(python, module, *given, timeout_s=TIMEOUT_S)


@pytest.mark.parametrize(("format", "minor"), LISTED)
def test_a_table_has_the_latest_value_of_each_key(
    format: str, minor: str, servers: str, tmp_path: Path
):
    found = merged(format, minor, servers, tmp_path / "a table", python_with(minor))
    assert found["first"] == [[number, f"n{number}", "B"] for number in range(6)]
    assert found["typed"] == [[1795953600, "2026-11-29 12:00:00", "1.50"]]
    second = [[0, "new", "B"], *([number, f"n{number}", "B"] for number in range(2, 6))]
    assert found["second"] == found["skipped"] == found["merged again"] == second
    first, once, again = found["counts"]
    assert (first["upserts"], first["errors"]) == (6, 1)
    # What overtook the late event was in its own batch.
    assert (once["upserts"], once["deletes"]) == (1, 1)
    assert (once["late"], once["overtaken"]) == (0, 1)
    assert (again["upserts"], again["deletes"]) == (0, 0)
    assert found["third"] == [[7, "g", "G", "m"]]
    assert (found["deleted"], found["types"]) == (0, ["bigint"])


@pytest.mark.parametrize("format", [one for one in PACKAGES if INSTALLED not in PACKAGES[one]])
def test_jars_of_another_spark_are_refused_before_a_batch(
    format: str, servers: str, tmp_path: Path
):
    minor = max(PACKAGES[format])
    place = tmp_path / "a table"
    found = merged(format, minor, servers, place, python_with(INSTALLED))
    assert f"format {format!r}: the package is made for another Spark than" in found["refused"]
    assert not (place / "_table").exists()
