"""Brokers that follow a quorum: records, restarts, nodes with both roles, several brokers."""

from __future__ import annotations

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.errors import BrokerError
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.producer import Producer
from fencepost.testing.quorum_cluster import QuorumCluster
from fencepost.wire.errors import ErrorCode

from .conftest import QUICK

pytestmark = pytest.mark.slow


def write(client: Cluster, topic: str, *values: bytes, partition: int = 0) -> None:
    with Producer(client) as producer:
        for value in values:
            producer.send(topic, value, partition=partition)
        producer.flush()


def end_offset(client: Cluster, topic: str, partition: int = 0) -> int:
    key = TopicPartition(topic, partition)
    return list_offsets(client, {key: LATEST})[key].offset


def test_records_survive_a_broker_that_is_killed(cluster: QuorumCluster):
    (broker,) = cluster.brokers.values()
    with Cluster(cluster.bootstrap_servers) as client:
        Admin(client).create_topic("records", 2, 1)
        Admin(client).wait_for_topic("records")
        write(client, "records", b"a", b"b", b"c", partition=1)
    broker.kill()
    broker.start()
    broker.wait_until_ready()
    with Cluster(cluster.bootstrap_servers) as client:
        assert end_offset(client, "records", 1) == 3


def test_a_topic_created_again_keeps_its_records_when_the_broker_reads_the_log_again(
    cluster: QuorumCluster,
):
    """A starting broker reads of the older topic first; its directory is the newer one's."""
    (broker,) = cluster.brokers.values()
    with Cluster(cluster.bootstrap_servers) as client:
        admin = Admin(client)
        for value in (b"old", b"new"):
            admin.create_topic("again", 1, 1)
            admin.wait_for_topic("again")
            write(client, "again", value, value)
            if value == b"old":
                admin.delete_topic("again")
    for how in (broker.stop, broker.kill):
        how()
        broker.start()
        broker.wait_until_ready()
        with Cluster(cluster.bootstrap_servers) as client:
            assert end_offset(client, "again") == 2
    strays = list((broker.directory / "data").glob("again*-stray"))
    assert strays == []


def test_nodes_with_both_roles():
    with QuorumCluster(3, 0, combined=True, config=QUICK) as cluster:
        with Cluster(cluster.bootstrap_servers) as client:
            admin = Admin(client)
            admin.create_topic("spread", 6, 1)
            found = admin.wait_for_topic("spread")
            assert {one.leader_id for one in found.partitions.values()} == set(cluster.nodes)
            for partition in range(6):
                write(client, "spread", b"x", partition=partition)
                assert end_offset(client, "spread", partition) == 1
        leader = cluster.leader_id()
        assert cluster.nodes[leader].stop() == 0
        with Cluster(cluster.bootstrap_servers) as client:
            Admin(client).create_topic("later", 1, 1)
            Admin(client).wait_for_topic("later")


def test_leaders_are_spread_and_replication_factors_that_brokers_cannot_fill_are_refused():
    with QuorumCluster(1, 2, config=QUICK) as cluster, Cluster(cluster.bootstrap_servers) as client:
        admin = Admin(client)
        admin.create_topic("single", 4, 1)
        found = admin.wait_for_topic("single")
        assert {one.leader_id for one in found.partitions.values()} == set(cluster.brokers)
        with pytest.raises(BrokerError) as refused:
            admin.create_topic("triple", 1, 3)
        assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
