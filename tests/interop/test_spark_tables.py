"""Archives in Delta and Iceberg by their own jars: exactly once where they fit the installed Spark,
and refused by name where they do not."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.producer import Producer
from fencepost.spark.archive.lakes import PACKAGES

from .conftest import jars_or_skip
from .maven import JarSet
from .pysparks import INSTALLED, answer_of, python_with

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(7_200),
]


def jar_set(format: str, minor: str) -> JarSet:
    """The jars of the project's list, with what they need that Spark has not."""
    package = PACKAGES[format][minor]
    version = package.rpartition(":")[2]
    more = (f"io.delta:delta-storage:{version}",) if format == "delta" else ()
    return JarSet(f"{format}-{version}-spark-{minor}", (package, *more), transitive=False)


LISTED = [(format, minor) for format, minors in PACKAGES.items() for minor in minors]
NOW_MS = int(time.time() * 1000)
DAY_MS = 86_400_000
TIMEOUT_S = 2_400


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    from fencepost.testing import Cluster as Served

    with Served(faults=False) as served:
        yield served.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> str:
    """Three partitions, 300 records of two days."""
    name = f"tables-{uuid.uuid4().hex[:8]}"
    with Cluster(servers) as cluster:
        Admin(cluster).create_topic(name, 3)
        Admin(cluster).wait_for_topic(name)
        with Producer(cluster) as producer:
            for number in range(300):
                producer.send(
                    name,
                    b"v%d" % number,
                    b"k%d" % number,
                    partition=number % 3,
                    headers=[("h", b"x")],
                    timestamp_ms=NOW_MS - (number % 2) * DAY_MS,
                )
    return name


def archived(
    format: str, minor: str, servers: str, topic: str, directory: Path, python: str
) -> dict[str, Any]:
    """What the job says, by this interpreter with the jars that are made for a Spark."""
    jars = ",".join(map(str, jars_or_skip(jar_set(format, minor)).jars()))
    given = (jars, format, servers, topic, directory)
    return answer_of(python, "tests.interop.tables_job", *given, timeout_s=TIMEOUT_S)


def contents(servers: str, topic: str) -> dict[int, list[tuple[Any, ...]]]:
    """All of a topic's committed records but their offsets, per partition in order."""
    with Cluster(servers, isolation_level="read_committed") as cluster:
        ends = list_offsets(
            cluster,
            {TopicPartition(topic, number): LATEST for number in cluster.topic(topic).partitions},
        )
        return {
            where.partition: [
                (one.key, one.value, list(one.headers), one.timestamp_ms)
                for fetched in Fetcher(cluster).read_range(where, 0, end.offset)
                for one in fetched.read_records(end.offset)
            ]
            for where, end in ends.items()
        }


@pytest.mark.parametrize(("format", "minor"), LISTED)
def test_a_table_has_every_record_once(
    format: str, minor: str, servers: str, topic: str, tmp_path: Path
):
    place = tmp_path / "an archive"
    found = archived(format, minor, servers, topic, place, python_with(minor))
    assert found["first"] == [300, 300]
    assert found["second"] == found["again"] == [360, 360]
    assert found["record"] == [topic, "k0", "v0"]
    assert found["partition"] == "bigint"
    directories, before, after, rows = found["compacted"]
    assert (directories, rows) == (2, 360)
    assert before > after == 2
    assert found["again after it"] == [360, 360]
    assert found["compacted again"] == [0, 0, 0, 0]
    assert found["maintained"][0] == 0
    assert found["again after maintenance"] == [360, 360]
    if format == "iceberg":
        assert found["partitions"] == 2
        # The query's last batch, and the compaction and the rewrite of manifests behind it.
        assert found["snapshots"] == 3
        assert found["expired"] >= 1
    assert found["notes"] == 360  # a column that was added to the table
    assert found["replayed"] == [150, 150, 60]
    records = contents(servers, topic)
    assert sum(map(len, records.values())) == 360
    assert contents(servers, f"{topic}-again") == records


@pytest.mark.parametrize("format", [one for one in PACKAGES if INSTALLED not in PACKAGES[one]])
def test_jars_of_another_spark_are_refused_before_a_batch(
    format: str, servers: str, topic: str, tmp_path: Path
):
    minor = max(PACKAGES[format])
    place = tmp_path / "an archive"
    found = archived(format, minor, servers, topic, place, python_with(INSTALLED))
    assert f"format {format!r}: the package is made for another Spark than" in found["refused"]
    assert f"no release of it for Spark {INSTALLED} was known" in found["refused"]
    assert not list(place.glob("table/topic=*"))


@pytest.mark.parametrize(("format", "minor"), LISTED)
def test_columns_are_added_widened_or_refused(format: str, minor: str, tmp_path: Path):
    jars = ",".join(map(str, jars_or_skip(jar_set(format, minor)).jars()))
    given = (jars, format, tmp_path / "a table")
    module = "tests.interop.evolution_job"
    found = answer_of(python_with(minor), module, *given, timeout_s=TIMEOUT_S)
    before = {"i": "int", "f": "float", "d": "decimal(9,2)", "s": "string", "__offset": "bigint"}
    assert found["made"] == before
    wider = {**before, "i": "bigint", "f": "double", "d": "decimal(18,2)", "more": "string"}
    assert found["widened"] == found["narrower asked for"] == wider
    digits = f"{'9' * 15}.25"
    assert found["rows"] == [[1, 0.5, "1.25", "a", 7, None], [2**40, 0.1, digits, "b", 8, "m"]]
    assert found["string to int"].endswith(
        "column s is string in the table and cannot become int64: only wider numbers and more "
        "fields lose nothing; "
        "give the new column another name, or write to a new table, with format "
        f"parquet or {'iceberg' if format == 'delta' else 'delta'} if that can"
    )
    assert found["after a refusal"] == wider  # nothing else was changed either
    if format == "delta":
        assert found["more digits behind the point"] == "decimal(20,4)"
    else:
        told = "column d is decimal128(18, 2) in the table and cannot become decimal128(20, 4)"
        assert told in found["more digits behind the point"]
    assert found["altered by others"] == "bigint"
    assert found["structs made"] == ["struct<a:int,d:decimal(9,2)>"]
    grown = ["struct<a:bigint,d:decimal(18,2),b-c:string>"]
    assert found["structs grown"] == found["structs asked for less"] == grown
    assert found["structs"] == [
        "(1, Decimal('1.25'), None)",
        f"({2**40}, Decimal('1.50'), 'x')",
        "(3, None, None)",
    ]
    assert found["alike"] == [True, True, True]
    assert "column s is struct<" in found["struct refused"]
    assert found["odd names at first"] == [True]
    assert found["odd names later"] == [True, True, True]
    # All names of a schema came in one commit; of the four wider types each has its own.
    assert found["made to have them"] == (
        ["0", "1", "6"]
        if format == "iceberg"
        else ["WRITE", "SET TBLPROPERTIES", "ADD COLUMNS", "ADD COLUMNS", "SET TBLPROPERTIES"]
        + ["CHANGE COLUMN"] * 4
    )
    assert "has no column headers, which is array<struct<" in found["archive without headers"]
    assert found["appended"] == ["bigint", [0, 0, None], [0, 1, None]]
