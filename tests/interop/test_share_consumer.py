"""Our share consumers (KIP-932) with brokers of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..client import test_share_consumer as here
from ..client.test_share_consumer import *  # noqa: F403 - the stories told of our broker
from .conftest import one_node
from .maven import JarSet

pytestmark = [pytest.mark.interop, pytest.mark.clients]

QUICK = {
    **{key: str(value) for key, value in here.QUICK.items()},
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@pytest.fixture(scope="module")
def quick(kafka_jars: JarSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap address of one node of Apache Kafka."""
    with one_node("apache", tmp_path_factory.mktemp("apache"), **QUICK) as address:
        yield address
