"""Groups whose members are put out, and whose coordinator moves, when a test says so."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.consumer import Consumer
from fencepost.client.metadata import TopicPartition
from fencepost.testing import Cluster, ClusterError

from ..waiting import eventually

pytestmark = pytest.mark.slow

PROTOCOLS = ("classic", "consumer")


# A member hears of its group's changes with the next heartbeat.
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Cluster]:
    with Cluster(brokers=2, config=QUICK) as cluster:
        with Client(cluster.bootstrap_servers) as client:
            Admin(client).create_topic("t", 2, 2)
            Admin(client).wait_for_topic("t")
        yield cluster


def joined(kafka: Cluster, group: str, protocol: str) -> tuple[Client, Consumer]:
    """A member that has both partitions."""
    settings: dict[str, Any] = {"group_id": group, "group_protocol": protocol}
    client = Client(kafka.bootstrap_servers, heartbeat_interval_ms=100, **settings)
    consumer = Consumer(client, ["t"])
    eventually(lambda: consumer.poll(50) or len(consumer.assignment) == 2, "an assignment")
    return client, consumer


def group_id() -> str:
    return f"g-{uuid.uuid4().hex[:10]}"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_is_put_out_and_joins_again(kafka: Cluster, protocol: str):
    group = group_id()
    client, consumer = joined(kafka, group, protocol)
    with client, consumer:
        before = consumer.rebalances
        (member,) = Admin(client).describe_group(group).members
        kafka.expire_member(group, member.member_id)
        assert Admin(client).describe_group(group).members == ()
        eventually(lambda: consumer.poll(50) or consumer.rebalances > before, "another assignment")
        assert consumer.assignment == (TopicPartition("t", 0), TopicPartition("t", 1))


def test_a_member_that_is_not_there_cannot_be_put_out(kafka: Cluster):
    client, consumer = joined(kafka, group := group_id(), "classic")
    with client, consumer, pytest.raises(ClusterError, match=f"{group} has no member absent"):
        kafka.expire_member(group, "absent")
    with pytest.raises(ClusterError, match="GROUP_ID_NOT_FOUND"):
        kafka.expire_member(group_id(), "absent")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_moves_and_its_member_goes_on(kafka: Cluster, protocol: str):
    group = group_id()
    client, consumer = joined(kafka, group, protocol)
    with client, consumer:
        former = client.coordinator(group).node_id
        moved = kafka.move_group(group)
        assert moved != former
        assert kafka.move_group(group, to=moved) == moved  # there already
        consumer.store(TopicPartition("t", 0), 0)
        consumer.commit()
        consumer.poll(50)
        assert len(consumer.assignment) == 2
        assert Admin(client).describe_group(group).coordinator_id == moved


def test_a_group_cannot_move_to_a_broker_that_does_not_run(kafka: Cluster):
    client, consumer = joined(kafka, group := group_id(), "classic")
    with client, consumer, pytest.raises(ClusterError, match="cannot move to 9"):
        kafka.move_group(group, to=9)


def test_the_group_of_a_lone_broker_cannot_move():
    with Cluster(faults=False) as lone:
        with Client(lone.bootstrap_servers) as client:
            Admin(client).create_topic("t", 2)
            Admin(client).wait_for_topic("t")
        client, consumer = joined(lone, group_id(), "classic")
        with client, consumer, pytest.raises(ClusterError, match="only its coordinator 1 runs"):
            lone.move_group(str(client.config.group_id))
