"""Nodes of a cluster that are killed, paused, stopped and cut off from each other."""

from __future__ import annotations

import socket
from typing import NamedTuple

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.connection import Connection
from fencepost.client.errors import ClientError
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.producer import Producer
from fencepost.testing import Cluster, ClusterError
from fencepost.wire.api.api_versions import ApiVersionsRequest

from ..broker.listener_fixtures import Client as RawClient
from ..broker.topic_requests import batch, produce_request
from ..waiting import DEADLINE_S, eventually
from .conftest import is_silent

pytestmark = pytest.mark.slow


def leader_of(cluster: Cluster, topic: str) -> int:
    """The broker that leads the topic's only partition, as the brokers that answer see it."""
    return cluster._partition(topic, 0).leader_id


def answers(cluster: Cluster, port: int) -> bool:
    """Whether a broker answers at its proxy."""
    try:
        with Connection("127.0.0.1", port, timeout_ms=300):
            return True
    except (ClientError, OSError):
        return False


def connect_to(cluster: Cluster, node_id: int) -> RawClient:
    """A raw client of one broker, through its proxy; its client id is "test"."""
    address = "127.0.0.1", cluster.port_of(node_id)
    return RawClient(socket.create_connection(address, timeout=DEADLINE_S))


def create(cluster: Cluster, topic: str, *replicas: int) -> None:
    """A topic of one partition on these brokers."""
    with Client(cluster.bootstrap_servers) as client:
        Admin(client).create_topic(topic, assignments={0: replicas})
        Admin(client).wait_for_topic(topic)


class Named(NamedTuple):
    """A topic, as requests name it that have no ids."""

    name: str


def end_of(cluster: Cluster, topic: str) -> int:
    """Where the topic's only partition ends."""
    key = TopicPartition(topic, 0)
    with Client(cluster.bootstrap_servers) as client:
        return list_offsets(client, {key: LATEST})[key].offset


def write(cluster: Cluster, topic: str, *records: bytes) -> None:
    """Records that are acknowledged when this returns."""
    with Client(cluster.bootstrap_servers) as client, Producer(client) as producer:
        for record in records:
            producer.send(topic, record)
        producer.flush()


def test_a_broker_that_is_killed_refuses_connections_and_comes_back(three: Cluster):
    port = three.port_of(2)
    assert answers(three, port)
    assert three.kill(2) == -9
    assert not three.nodes[2].running
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    three.restart(2)
    assert answers(three, port)


def test_the_other_replica_leads_when_the_leader_is_killed(three: Cluster):
    create(three, "failover", 1, 2)
    write(three, "failover", b"a", b"b")
    eventually(lambda: len(three._partition("failover", 0).isr_nodes) == 2)
    assert leader_of(three, "failover") == 1
    three.kill(1)
    eventually(lambda: leader_of(three, "failover") == 2)
    write(three, "failover", b"c")
    three.restart(1)
    eventually(lambda: len(three._partition("failover", 0).isr_nodes) == 2)


def test_a_paused_broker_is_silent_until_it_is_resumed(three: Cluster):
    port = three.port_of(3)
    three.pause(3)
    assert not answers(three, port)
    three.resume(3)
    eventually(lambda: answers(three, port))


def test_a_client_is_cut_off_from_a_broker_one_way_or_both(three: Cluster):
    with connect_to(three, 1) as client, connect_to(three, 2) as other:
        client.ask(ApiVersionsRequest(), 0)
        for sender, receiver, one_way in (("test", 1, True), (1, "test", True), (1, None, False)):
            three.cut(sender, receiver, one_way=one_way)
            assert (sender, receiver) in three.cuts
            sent = client.send(ApiVersionsRequest(), 0)
            other.ask(ApiVersionsRequest(), 0)
            assert is_silent(client)
            three.heal(receiver, sender)
            assert three.cuts == []
            assert client.receive(18, 0)[0] == sent


def test_a_cut_one_way_loses_the_request_or_only_its_answer(three: Cluster):
    create(three, "one-way", 1)
    for number, (sender, receiver) in enumerate((("test", 1), (1, "test"))):
        with connect_to(three, 1) as client:
            client.ask(ApiVersionsRequest(), 0)
            three.cut(sender, receiver, one_way=True)
            client.send(produce_request(Named("one-way"), batch(b"a")), 9)
            if number:
                eventually(lambda: end_of(three, "one-way") == 3)
            else:
                write(three, "one-way", b"from another client")
                assert end_of(three, "one-way") == 1
            assert is_silent(client)
            client.close()
            three.heal()
            if not number:  # it was on its way, and its client has gone
                eventually(lambda: end_of(three, "one-way") == 2)


def test_what_a_link_carries_both_ways_is_healed_together(three: Cluster):
    three.cut(1, 2)
    three.cut(3, one_way=True)
    assert set(three.cuts) == {(1, 2), (2, 1), (3, None)}
    three.heal(2, 1)
    assert three.cuts == [(3, None)]


def test_a_broker_that_is_cut_off_loses_its_leaders(three: Cluster):
    create(three, "island", 3, 1)
    write(three, "island", b"a")
    eventually(lambda: len(three._partition("island", 0).isr_nodes) == 2)
    three.cut(3)
    eventually(lambda: leader_of(three, "island") == 1)
    three.heal()
    eventually(lambda: len(three._partition("island", 0).isr_nodes) == 2)


def test_a_follower_that_is_cut_off_from_its_leader_does_not_follow(three: Cluster):
    create(three, "apart", 1, 2)
    eventually(lambda: len(three._partition("apart", 0).isr_nodes) == 2)
    three.cut(2, 1, one_way=True)
    with three.delay("Fetch", 1, client_id="broker-2-fetcher-0", node=1) as passed:
        acknowledged = RawClient(
            socket.create_connection(("127.0.0.1", three.port_of(1)), timeout=DEADLINE_S)
        )
        with acknowledged as client:
            client.send(produce_request(Named("apart"), batch(b"a")), 9)
            assert is_silent(client), "everybody in sync is waited for"
            assert passed.hits == 0
            three.heal()
            assert client.receive(0, 9)[1].responses[0].partition_responses[0].error_code == 0


def test_nodes_go_by_their_ids(three: Cluster):
    assert sorted(three.brokers) == [1, 2, 3]
    assert sorted(three.controllers) == [4]
    with pytest.raises(ClusterError, match="no node 9"):
        three.kill(9)
    with pytest.raises(ClusterError, match="which node"):
        three.kill()
    with pytest.raises(ClusterError, match="running already"):
        three.start(1)


def test_reset_makes_a_cluster_whole_again(three: Cluster):
    three.kill(1)
    three.pause(2)
    three.cut(3)
    three.hold("Produce")
    three.reset()
    assert (three.running, three.cuts, three.faults) == (True, [], [])
    for id_ in three.brokers:
        eventually(lambda id_=id_: answers(three, three.port_of(id_)))


def test_without_faults_there_is_no_proxy():
    with Cluster(faults=False) as cluster:
        assert cluster.bootstrap_servers in cluster.nodes[1].addresses
        with pytest.raises(ValueError, match="not been started"):
            cluster.hold("Produce")
