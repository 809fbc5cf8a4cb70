"""Clusters for the client's tests: fake ones, and a served one for the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.client.cluster import Cluster

from .fake_cluster import FakeCluster


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    """Two fake brokers."""
    with FakeCluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
def connect() -> Iterator[Callable[..., Cluster]]:
    """Opens clusters with short back-offs and closes them afterwards."""
    opened: list[Cluster] = []

    def open_cluster(servers: Any, **properties: Any) -> Cluster:
        settings = {
            "retry_backoff_ms": 1,
            "retry_backoff_max_ms": 20,
            "api_timeout_ms": 60_000,
            "request_timeout_ms": 30_000,
            "fetch_max_wait_ms": 50,
            **properties,
        }
        text = servers if isinstance(servers, str) else servers.bootstrap_servers
        opened.append(Cluster(text, **settings))
        return opened[-1]

    yield open_cluster
    for cluster in opened:
        cluster.close()
