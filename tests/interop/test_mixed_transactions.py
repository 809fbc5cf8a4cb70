"""Transactions in one cluster with brokers of both kinds as coordinators, leaders, followers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer

from . import apache
from .quorum import APACHE, FENCEPOST, Quorum
from .test_mixed_replication import (
    BROKERS,
    PARTITIONS,
    SESSION,
    TOPIC,
    addresses,
    both_kinds,
    checksum,
    create_led_by_both,
    wait_for_isrs,
)

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

CONFIG = SESSION | {
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
}
IDS = 6


@pytest.fixture(params=[APACHE, FENCEPOST])
def quorum(request: pytest.FixtureRequest, kafka_jars, tmp_path: Path) -> Iterator[Quorum]:
    """Brokers of both kinds under a controller of one."""
    with both_kinds(tmp_path, request.param, CONFIG) as quorum:
        yield quorum


def write(quorum: Quorum, name: str, rounds: int = 4) -> Counter[str]:
    """Transactions of one id in all partitions, every other one aborted; what is committed."""
    kept: Counter[str] = Counter()
    with Client(addresses(quorum), transactional_id=name) as client:
        producer = Producer(client)
        producer.init_transactions()
        for number in range(rounds):
            value = f"{name}-{number}"
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.send(TOPIC, value.encode(), partition=partition)
            producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): number}, name)
            if number % 2:
                producer.flush()
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                kept[value] = PARTITIONS
    return kept


def read_committed(quorum: Quorum, broker_id: int, count: int) -> Counter[str]:
    """By Apache Kafka's consumer, which begins with this broker."""
    committed = ("--from-beginning", "--isolation-level", "read_committed")
    return Counter(apache.consume(quorum.nodes[broker_id].address, TOPIC, count, *committed))


def offset_of(quorum: Quorum, group: str) -> int:
    part = TopicPartition(TOPIC, 0)
    with Client(addresses(quorum)) as client:
        return Admin(client).group_offsets(group, [part], require_stable=True)[part].offset


def test_transactions_end_wherever_they_are_written_and_decided(quorum: Quorum) -> None:
    create_led_by_both(quorum)
    everybody = set(BROKERS)
    kept: Counter[str] = Counter()
    for number in range(IDS):
        kept += write(quorum, f"first-{number}")
    for id_ in (101, 102):
        quorum.nodes[id_].stop()
        wait_for_isrs(quorum, everybody - {id_})
        for number in range(IDS):
            kept += write(quorum, f"without-{id_}-{number}", rounds=2)
        quorum.nodes[id_].start()
        wait_for_isrs(quorum, everybody)
    for number in range(IDS):
        assert offset_of(quorum, f"first-{number}") == 2
        assert offset_of(quorum, f"without-101-{number}") == 0
    for id_ in (101, 102):
        assert read_committed(quorum, id_, kept.total()) == kept
    wait_for_isrs(quorum, everybody)
    for id_ in BROKERS:
        quorum.nodes[id_].stop()
    for partition in range(PARTITIONS):
        sums = {checksum(quorum.nodes[id_].data_dir, partition) for id_ in BROKERS}
        assert len(sums) == 1, f"partition {partition} is the same everywhere"
