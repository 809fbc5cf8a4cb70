"""Both brokers at once, each with topics of the same names and configs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pytest

from fencepost.wire.api.find_coordinator import FindCoordinatorRequest

from ...waiting import eventually
from ..conftest import one_node
from ..maven import JarSet
from .comparing import Side

SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.min.session.timeout.ms": "100",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Each history opens a session or two, and leaves them open.
    "group.share.max.share.sessions": "1000000",
    # Assignments with the heartbeat that asks for them.
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    # By the request that has them computed, not a moment later.
    "group.consumer.assignor.offload.enable": "false",
    "group.share.assignor.offload.enable": "false",
    # So many that a record of a history is not delivered so often that its range is divided.
    "group.share.max.delivery.count.limit": "25",
    "group.share.delivery.count.limit": "10",
    # Longer than any history, so that no lock ends in one.
    "group.share.record.lock.duration.ms": "60000",
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
            wait_for_coordinators(made[-1])
        yield made


def wait_for_coordinators(side: Side) -> None:
    """Have the topics of groups and transactions made, as the first search for one of them does."""
    for key_type in (0, 1):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])

        def is_found(request: FindCoordinatorRequest = request) -> bool:
            return bool(side.request(request, 4).coordinators[0].error_code == 0)

        eventually(is_found, f"{side.name} has a coordinator of type {key_type}")
