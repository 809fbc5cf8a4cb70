"""Brokers that are killed or stopped: others lead at once, although no session has ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.metadata import PartitionInfo
from fencepost.client.producer import Producer
from fencepost.testing.quorum_cluster import QuorumCluster

from ..waiting import eventually
from .conftest import QUICK

pytestmark = pytest.mark.slow

CONFIG = QUICK | {
    "broker.heartbeat.interval.ms": 300,
    "broker.session.timeout.ms": 3_600_000,  # so no broker is fenced because it is silent
    "min.insync.replicas": 2,
}
TOPIC = "replicated"


@pytest.fixture(scope="module")
def brokers() -> Iterator[QuorumCluster]:
    """Three nodes, each broker and controller, and a topic with a replica on each."""
    with QuorumCluster(3, 0, combined=True, config=CONFIG) as cluster:
        with Cluster(cluster.bootstrap_servers) as client:
            Admin(client).create_topic(TOPIC, 1, 3)
            Admin(client).wait_for_topic(TOPIC)
        yield cluster


def look(cluster: QuorumCluster) -> PartitionInfo:
    with Cluster(cluster.bootstrap_servers) as client:
        return Admin(client).describe_topic(TOPIC).partitions[0]


def lead(cluster: QuorumCluster) -> PartitionInfo:
    """The partition, once its three replicas are in sync."""
    cluster.start()
    eventually(lambda: len(look(cluster).isr) == 3, "all in sync")
    return look(cluster)


@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("is_active", [True, False], ids=["active controller", "another node"])
def test_a_leader_that_goes_is_followed_at_once(
    brokers: QuorumCluster, is_active: bool, how: str
) -> None:
    """A killed process refuses connections; a stopped one hands over before it goes.

    Where the active controller goes with it, the next one has never heard of it.
    """
    before = lead(brokers)
    active = brokers.leader_id()
    while (before.leader_id == active) is not is_active:
        brokers.nodes[active].stop()
        brokers.start()
        before, active = lead(brokers), brokers.leader_id()
    getattr(brokers.nodes[before.leader_id], how)()
    with Cluster(brokers.bootstrap_servers) as client, Producer(client) as producer:
        sent = producer.send(TOPIC, how.encode(), partition=0)
        producer.flush()
        assert sent.result() >= 0
    after = look(brokers)
    assert after.leader_id not in (-1, before.leader_id)
    assert before.leader_id not in after.isr and len(after.isr) == 2
    assert after.leader_epoch == before.leader_epoch + 1
