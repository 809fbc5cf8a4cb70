"""Partitions move between three brokers, one process each, while they are written to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.client.replicas import UNCLEAN, PartitionState
from fencepost.testing.quorum_cluster import QuorumCluster
from fencepost.wire.errors import ErrorCode

from ..waiting import DEADLINE_S, eventually
from .test_replication import CONFIG

pytestmark = [pytest.mark.slow, pytest.mark.clients]


@pytest.fixture(scope="module")
def shared_brokers() -> Iterator[QuorumCluster]:
    """Three nodes, each broker and controller, that leave leaders where they are."""
    config = {**CONFIG, "auto.leader.rebalance.enable": "false"}
    with QuorumCluster(3, 0, combined=True, config=config) as cluster:
        yield cluster


@pytest.fixture
def client(shared_brokers: QuorumCluster) -> Iterator[Cluster]:
    shared_brokers.start()
    with Cluster(shared_brokers.bootstrap_servers, api_timeout_ms=60_000) as cluster:
        yield cluster


def create(client: Cluster, name: str, *assignments: list[int], **configs: str) -> TopicPartition:
    """A topic of such partitions; the first of them."""
    admin = Admin(client)
    placed = dict(enumerate(assignments))
    admin.create_topic(name, assignments=placed, configs=dict(configs))
    admin.wait_for_topic(name)
    return TopicPartition(name, 0)


def write(client: Cluster, where: TopicPartition, *values: bytes) -> list[int]:
    """Produce with acks=all; the offsets."""
    with Producer(client) as producer:
        sent = [producer.send(where.topic, value, partition=where.partition) for value in values]
    return [one.result() for one in sent]


def state(client: Cluster, where: TopicPartition) -> PartitionState:
    return Admin(client).describe_partitions([where.topic])[where]


def is_in(client: Cluster, where: TopicPartition, isr: set[int]) -> bool:
    return set(state(client, where).isr) == isr


def holders(cluster: QuorumCluster, where: TopicPartition) -> set[int]:
    """The nodes that have a directory of the partition, not one that is to be removed."""
    name = f"{where.topic}-{where.partition}"
    return {
        id_
        for id_, node in cluster.nodes.items()
        if any(path.name == name for path in Path(node.directory).rglob(name))
    }


def test_a_partition_moves_with_its_records(shared_brokers: QuorumCluster, client: Cluster) -> None:
    admin = Admin(client)
    where = create(client, "moves", [1, 2])
    assert write(client, where, *[b"before"] * 50) == list(range(50))
    before = state(client, where)
    assert admin.alter_reassignments({where: [3, 2]})[where].is_done
    assert write(client, where, *[b"meanwhile"] * 50) == list(range(50, 100))
    eventually(lambda: admin.list_reassignments() == {}, "it has moved")
    eventually(lambda: state(client, where).replicas == (3, 2), "a broker has heard of it")
    after = state(client, where)
    assert (set(after.isr), after.leader_id) == ({2, 3}, 3)
    assert after.leader_epoch > before.leader_epoch
    assert write(client, where, b"after") == [100]
    eventually(lambda: holders(shared_brokers, where) == {2, 3}, "broker 1 has deleted its replica")


@pytest.mark.long
def test_a_move_to_a_broker_that_is_down_is_listed_and_called_off(
    shared_brokers: QuorumCluster, client: Cluster
) -> None:
    admin = Admin(client)
    where = create(client, "waits", [1, 2])
    write(client, where, b"one")
    shared_brokers.nodes[3].kill()
    try:
        assert admin.alter_reassignments({where: [1, 3]})[where].is_done
        moving = admin.list_reassignments()[where]
        assert (moving.replicas, moving.adding, moving.removing) == ((1, 3, 2), (3,), (2,))
        assert moving.target == (1, 3)
        assert write(client, where, b"two") == [1]
        assert admin.alter_reassignments({where: None})[where].is_done
        assert admin.list_reassignments() == {}
        eventually(lambda: state(client, where).replicas == (1, 2), "a broker has heard of it")
    finally:
        shared_brokers.start()


@pytest.mark.long
def test_leaders_are_elected_by_request(shared_brokers: QuorumCluster, client: Cluster) -> None:
    admin = Admin(client)
    where = create(client, "elected", [3, 1])
    write(client, where, b"one")
    shared_brokers.nodes[3].kill()
    eventually(lambda: state(client, where).leader_id == 1, "the other leads")
    refused = admin.elect_leaders([where])[where]
    assert refused.error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    shared_brokers.start()
    eventually(lambda: is_in(client, where, {1, 3}), "it is in sync again")
    confluent = AdminClient({"bootstrap.servers": shared_brokers.bootstrap_servers})
    asked = ConfluentPartition(where.topic, where.partition)
    results = confluent.elect_leaders(ElectionType.PREFERRED, [asked]).result(DEADLINE_S)
    assert list(results.values()) == [None]
    eventually(lambda: state(client, where).leader_id == 3, "a broker has heard of it")
    [error] = confluent.elect_leaders(ElectionType.PREFERRED, [asked]).result(DEADLINE_S).values()
    assert error.code() == ErrorCode.ELECTION_NOT_NEEDED


@pytest.mark.long
def test_an_unclean_election_by_request(shared_brokers: QuorumCluster, client: Cluster) -> None:
    """Without the last in-sync replica the partition has no leader, until an operator asks for an
    unclean election."""
    admin = Admin(client)
    where = create(client, "unclean", [3, 1])
    write(client, where, b"one")
    shared_brokers.nodes[1].kill()
    eventually(lambda: is_in(client, where, {3}), "1 is out")
    write(client, where, b"lost")
    shared_brokers.nodes[3].kill()
    shared_brokers.nodes[1].start()
    eventually(lambda: state(client, where).leader_id == -1, "no broker leads")
    outcome = eventually_elected(admin, where)
    assert outcome == 0
    eventually(lambda: state(client, where).leader_id == 1, "it leads")
    assert state(client, where).isr == (1,)
    shared_brokers.start()
    eventually(lambda: is_in(client, where, {1, 3}), "the other follows")
    assert write(client, where, b"two") == [1], "what 3 had alone is gone"


def eventually_elected(admin: Admin, where: TopicPartition) -> int:
    """The error of the first election that finds a broker which may lead."""
    codes: list[int] = []

    def elect() -> bool:
        codes.append(admin.elect_leaders([where], UNCLEAN)[where].error_code)
        return codes[-1] != ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE

    eventually(elect, "a replica may lead")
    return codes[-1]


@pytest.mark.long
def test_leadership_goes_back_to_the_preferred_replica_by_itself() -> None:
    config = {**CONFIG, "leader.imbalance.check.interval.seconds": 1}
    with (
        QuorumCluster(3, 0, combined=True, config=config) as brokers,
        Cluster(brokers.bootstrap_servers, api_timeout_ms=60_000) as client,
    ):
        where = create(client, "balanced", [3, 1])
        write(client, where, b"one")
        brokers.nodes[3].kill()
        eventually(lambda: state(client, where).leader_id == 1, "the other leads")
        brokers.start()
        eventually(lambda: state(client, where).leader_id == 3, "it leads again")
        assert write(client, where, b"two") == [1]
