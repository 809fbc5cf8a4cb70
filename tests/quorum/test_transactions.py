"""Transactions whose coordinator, leaders and group are on different brokers; some are killed."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.producer import Producer
from fencepost.testing.quorum_cluster import QuorumCluster

from ..waiting import eventually
from .conftest import QUICK

pytestmark = pytest.mark.slow

TOPIC = "t"
PARTITIONS = 3
CONFIG = QUICK | {
    "broker.heartbeat.interval.ms": 300,
    "broker.session.timeout.ms": 3_600_000,  # so no broker is fenced because it is silent
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.min.isr": 2,
    "min.insync.replicas": 2,
}


@pytest.fixture(scope="module")
def brokers() -> Iterator[QuorumCluster]:
    """Three nodes, each broker and controller; each leads a partition of the topic."""
    with QuorumCluster(3, 0, combined=True, config=CONFIG) as cluster:
        with Cluster(cluster.bootstrap_servers) as client:
            Admin(client).create_topic(TOPIC, PARTITIONS, 3)
            Admin(client).wait_for_topic(TOPIC)
        yield cluster


def leaders(cluster: QuorumCluster) -> list[int]:
    with Cluster(cluster.bootstrap_servers) as client:
        found = Admin(client).describe_topic(TOPIC).partitions
    return [part.leader_id for part in found.values() if len(part.isr) == 3]


def committed(cluster: QuorumCluster) -> Counter[bytes]:
    """What readers of committed data find, once nothing is open."""
    with Cluster(cluster.bootstrap_servers, isolation_level="read_committed") as client:
        parts = {TopicPartition(TOPIC, index): LATEST for index in range(PARTITIONS)}
        ends = list_offsets(client, parts)
        return Counter(
            record.value or b""
            for part, end in ends.items()
            for fetched in Fetcher(client).read_range(part, 0, end.offset)
            for record in fetched.read_records(end.offset)
        )


def write(producer: Producer, value: bytes, group: str, offset: int) -> None:
    """A transaction in all partitions, with an offset."""
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.send(TOPIC, value, partition=partition)
    producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): offset}, group)


def offset_of(cluster: QuorumCluster, group: str) -> int:
    part = TopicPartition(TOPIC, 0)
    with Cluster(cluster.bootstrap_servers) as client:
        return Admin(client).group_offsets(group, [part], require_stable=True)[part].offset


def is_settled(cluster: QuorumCluster, name: str) -> bool:
    """Whether all markers of what was decided are written; what is not decided has none."""
    with Cluster(cluster.bootstrap_servers) as client, contextlib.suppress(ClientError):
        return not Admin(client).describe_transaction(name).state.startswith("Prepare")
    return False


def test_everybody_is_reached_wherever_he_is(brokers: QuorumCluster) -> None:
    """Ids and groups are spread over all three, so every pair of nodes speaks with each other."""
    assert eventually(lambda: sorted(set(leaders(brokers))) == [1, 2, 3])
    expected: Counter[bytes] = Counter()
    for number in range(4):
        name = f"reached-{number}"
        with Cluster(brokers.bootstrap_servers, transactional_id=name) as client:
            producer = Producer(client)
            producer.init_transactions()
            for round_number, is_committed in enumerate((True, False, True)):
                value = b"%d-%d" % (number, round_number)
                write(producer, value, name, round_number)
                if is_committed:
                    producer.commit_transaction()
                    expected[value] = PARTITIONS
                else:
                    producer.abort_transaction()
        assert offset_of(brokers, name) == 2
    assert eventually(lambda: committed(brokers) == expected)


def test_a_broker_that_is_killed_takes_no_transaction_with_it(brokers: QuorumCluster) -> None:
    """Between what is written and its end: what was committed is there, in all partitions."""
    for victim in (1, 2, 3):
        brokers.start()
        assert eventually(lambda: len(leaders(brokers)) == PARTITIONS)
        name = f"killed-{victim}"
        with Cluster(brokers.bootstrap_servers, transactional_id=name) as client:
            producer = Producer(client)
            producer.init_transactions()
            write(producer, name.encode(), name, victim)
            producer.flush()
            brokers.nodes[victim].kill()
            with contextlib.suppress(ClientError):
                producer.commit_transaction()
                assert eventually(lambda name=name: committed(brokers)[name.encode()] == PARTITIONS)
                assert offset_of(brokers, name) == victim
        # An end whose answer was lost may have been decided: not in between its markers.
        assert eventually(lambda name=name: is_settled(brokers, name))
        found = committed(brokers)
        assert found[name.encode()] in (0, PARTITIONS)
    brokers.start()
