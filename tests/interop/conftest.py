"""Brokers for the interop suite: the same tests run against Fencepost and against Apache Kafka.

What passes on Apache Kafka and fails on Fencepost is our mistake; what fails on both is the test's.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.connection import Connection

from ..waiting import DEADLINE_MS
from . import apache
from .maven import JarSet, JarsUnavailableError

# The newest of each that Maven Central's mirrors reliably carry; in Spark 4.1 streams of 4.2's
# connector fail. The connector only uses the token helper for delegation tokens, so its version
# does not matter here.
CONNECTOR = "4.1.1" if version("pyspark").startswith("4.1.") else "4.2.0"
SPARK_KAFKA = JarSet(
    f"spark-kafka-{CONNECTOR}",
    (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR}",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:3.5.1",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
    ),
    transitive=False,
)


def jars_or_skip(jars: JarSet) -> JarSet:
    """The set, fetched; the test is skipped with the reason when it cannot be had."""
    try:
        jars.jars()
    except JarsUnavailableError as error:
        pytest.skip(f"{jars.name} is not available: {error}")
    return jars


@pytest.fixture(scope="session")
def kafka_jars() -> JarSet:
    """Apache Kafka's jars."""
    return jars_or_skip(apache.KAFKA)


@contextlib.contextmanager
def one_node(kind: str, directory: Path, **config: str) -> Iterator[str]:
    """Bootstrap address of a fresh cluster of one node of the kind with these configs; only Apache
    Kafka's is kept in the directory."""
    if kind == "apache":
        with apache.apache_broker(directory, **config) as broker:
            yield broker.bootstrap_servers
    else:
        from fencepost.testing import Cluster

        chosen = {"group.initial.rebalance.delay.ms": "0", **config}
        with Cluster(faults=False, config=chosen) as cluster:
            yield cluster.bootstrap_servers


def node_of_each_kind(**config: str) -> Any:
    """A fixture: bootstrap address of a node with these configs, of each kind in turn."""

    @pytest.fixture(scope="module", params=["fencepost", "apache"])
    def bootstrap(
        request: pytest.FixtureRequest, kafka_jars: JarSet, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[str]:
        """Bootstrap address of a node of the kind."""
        with one_node(request.param, tmp_path_factory.mktemp(request.param), **config) as servers:
            yield servers

    return bootstrap


bootstrap = node_of_each_kind()


@pytest.fixture
def broker(bootstrap: str) -> Iterator[Connection]:
    """A connection to it."""
    host, _, port = bootstrap.rpartition(":")
    with Connection(host, int(port), timeout_ms=DEADLINE_MS) as connection:
        yield connection


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session with Spark's Kafka connector on its class path beside ours; tasks run with this
    interpreter. Its JVM stays until the end."""
    jars = jars_or_skip(SPARK_KAFKA).jars()
    from pyspark.sql import SparkSession

    from fencepost.spark.java import ensure_java_home

    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .config("spark.jars", ",".join(map(str, jars)))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
