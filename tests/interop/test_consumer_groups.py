"""Our consumers in consumer groups (KIP-848) of Apache Kafka, and in one with librdkafka's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from fencepost.client.consumer import Consumer

from ..client import test_consumer_groups as here
from ..client.test_consumer_groups import *  # noqa: F403 - the stories told of our broker
from .conftest import one_node
from .maven import JarSet

pytestmark = [pytest.mark.interop, pytest.mark.clients]

QUICK = {key: str(value) for key, value in here.QUICK.items()}


@pytest.fixture(scope="module")
def quick(kafka_jars: JarSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap address of one node of Apache Kafka."""
    with one_node("apache", tmp_path_factory.mktemp("apache"), **QUICK) as address:
        yield address


@pytest.fixture(scope="module", params=["apache", "fencepost"])
def servers(
    request: pytest.FixtureRequest, quick: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Bootstrap address of one node of either kind."""
    if request.param == "apache":
        yield quick
        return
    with one_node("fencepost", tmp_path_factory.mktemp("fencepost"), **QUICK) as address:
        yield address


def test_one_group_with_librdkafka(servers: str, topic: str) -> None:
    parts = here.filled(servers, topic)
    group = f"g-{topic}"
    theirs = ConfluentConsumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    theirs.subscribe([topic])
    stopped = threading.Event()
    numbers: set[int] = set()

    def poll() -> None:
        while not stopped.is_set():
            theirs.poll(0.1)
            numbers.clear()
            numbers.update(one.partition for one in theirs.assignment())
        theirs.close()

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        here.eventually(lambda: len(numbers) == len(parts), "librdkafka to have all")
        settings: dict[str, Any] = {"group_id": group, "group_protocol": "consumer"}
        with here.Cluster(servers, **settings) as cluster, Consumer(cluster, [topic]) as ours:

            def have_half() -> bool:
                mine = {at.partition for at in ours.assignment}
                return len(mine) == len(numbers) == 2 and not mine & numbers

            here.until(have_half, ours)
            stopped.set()
            here.until(lambda: set(ours.assignment) == set(parts), ours)
    finally:
        stopped.set()
        polling.join()
