"""One served broker for the suite, or any cluster named by FENCEPOST_TEST_BOOTSTRAP."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ..waiting import DEADLINE_S


@pytest.fixture(scope="session")
def bootstrap(served: str) -> str:
    """Where the broker under test listens."""
    return served


@pytest.fixture
def make_topic(bootstrap: str) -> Callable[..., str]:
    """Creates a topic with a fresh name and waits until it exists."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def make(partitions: int = 1, **config: str) -> str:
        name = f"t-{uuid.uuid4().hex[:10]}"
        wanted = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        admin.create_topics([wanted])[name].result(DEADLINE_S)
        return name

    return make
