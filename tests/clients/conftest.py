"""One served broker for the suite, or any cluster named by FENCEPOST_TEST_BOOTSTRAP."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """Where the broker under test listens."""
    named = os.environ.get("FENCEPOST_TEST_BOOTSTRAP")
    if named:
        yield named
        return
    from fencepost.testing import Cluster

    with Cluster(group_initial_rebalance_delay_ms=0) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def make_topic(bootstrap: str) -> Callable[..., str]:
    """Creates a topic with a fresh name and waits until it exists."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def make(partitions: int = 1, **config: str) -> str:
        name = f"t-{uuid.uuid4().hex[:10]}"
        wanted = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        admin.create_topics([wanted])[name].result(20)
        return name

    return make
