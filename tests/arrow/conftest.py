"""Fake clusters, and the properties with which they are read fast."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..client.fake_cluster import FakeCluster

Properties = dict[str, object]


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    """Two fake brokers with a topic t of two partitions."""
    with FakeCluster(brokers=2) as cluster:
        cluster.create_topic("t", 2)
        yield cluster


@pytest.fixture
def servers(fake: FakeCluster) -> Properties:
    """Where the fake cluster is, and how to wait for it briefly."""
    return properties(fake)


def properties(fake: FakeCluster) -> Properties:
    return {
        "bootstrap.servers": fake.bootstrap_servers,
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 20,
        "default.api.timeout.ms": 60_000,
        "fetch.max.wait.ms": 20,
    }
