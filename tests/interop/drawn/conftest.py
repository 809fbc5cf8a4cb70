"""Both brokers at once, each with topics of the same names and configs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pytest

from ..conftest import one_node
from ..maven import JarSet
from .comparing import Side

SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.min.session.timeout.ms": "100",
    # Brokers delete at times of their own: records, which are of 2023; groups without offsets.
    "log.retention.ms": "-1",
    "offsets.retention.check.interval.ms": "86400000",
    # Histories do not end their fetch sessions, and which one is evicted is not compared.
    "max.incremental.fetch.session.cache.slots": "1000000",
}


@pytest.fixture(scope="session")
def sides(kafka_jars: JarSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Side]]:
    """Fencepost and Apache Kafka, in this order, with the same settings."""
    made = []
    with contextlib.ExitStack() as running:
        for kind in ("fencepost", "apache"):
            directory = tmp_path_factory.mktemp(f"drawn-{kind}")
            servers = running.enter_context(one_node(kind, directory, **SETTINGS))
            host, _, port = servers.rpartition(":")
            made.append(Side(kind, host, int(port)))
            running.callback(made[-1].close)
        yield made
