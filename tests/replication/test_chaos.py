"""Brokers killed, stopped, paused and cut off by a seed while three clients write and one reads.

One broker at a time is harmed, often the leader of a partition; with two of three replicas in sync
the writers must go on. In the end nothing may be lost, repeated, out of order or taken back, and
all replicas must be the same. FENCEPOST_CHAOS_SEEDS=N tries N seeds, FENCEPOST_CHAOS_SEED=S one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.batch.record_batch import iter_batches
from fencepost.batch.records import read_records
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.errors import ClientError
from fencepost.testing import Cluster

from ..waiting import eventually
from .history import Log, Record, anomalies, differences
from .writers import Aiokafka, Librdkafka, Ours, Reader, Worker, Writer

pytestmark = [pytest.mark.long, pytest.mark.clients, pytest.mark.timeout(900)]

BROKERS = 3
PARTITIONS = 3
STEPS = 4
ONE_SEED = os.environ.get("FENCEPOST_CHAOS_SEED")
MANY = int(os.environ.get("FENCEPOST_CHAOS_SEEDS", "3"))
SEEDS = [int(ONE_SEED)] if ONE_SEED else range(MANY)
CONFIG = {
    "min.insync.replicas": 2,
    "replica.lag.time.max.ms": 2_000,
    "replica.fetch.wait.max.ms": 100,
    "broker.session.timeout.ms": 2_000,
    "broker.heartbeat.interval.ms": 200,
}
HARM = ("kill", "stop", "pause", "cut", "cut what it sends", "cut what it hears")


class Chaos:
    """Does harm to one broker after the other and knows how to undo it."""

    def __init__(self, cluster: Cluster, dice: random.Random, topic: str) -> None:
        self._cluster, self._dice, self._topic = cluster, dice, topic
        self.history: list[str] = []

    def step(self) -> None:
        """Harm a broker, more often than not one that leads partition 0."""
        cluster, dice = self._cluster, self._dice
        leader = self._leader()
        id_ = leader if leader > 0 and dice.random() < 0.6 else dice.choice(list(cluster.brokers))
        what = dice.choice(HARM)
        self.history.append(f"{what} {id_}")
        if what == "kill":
            cluster.kill(id_)
        elif what == "stop":
            cluster.stop(id_)
        elif what == "pause":
            cluster.pause(id_)
        elif what == "cut":
            cluster.cut(id_)
        elif what == "cut what it sends":
            cluster.cut(id_, one_way=True)
        else:
            cluster.cut(None, id_, one_way=True)

    def heal(self) -> None:
        """Everybody runs, is reached, and is in every in-sync set again."""
        self.history.append("heal")
        self._cluster.heal()
        for id_, node in self._cluster.brokers.items():
            if not node.running:
                self._cluster.start(id_)
            elif node.is_paused:
                node.resume()
        eventually(self._is_whole, "not all replicas are in sync")

    def _leader(self) -> int:
        try:
            with Client(self._cluster.bootstrap_servers) as client:
                return Admin(client).describe_topic(self._topic).partitions[0].leader_id
        except ClientError:
            return -1

    def _is_whole(self) -> bool:
        try:
            with Client(self._cluster.bootstrap_servers) as client:
                topic = Admin(client).describe_topic(self._topic)
        except ClientError:
            return False
        return all(len(info.isr) == BROKERS for info in topic.partitions.values())


def read_log(data_dir: Path, topic: str, partition: int) -> Log:
    """A partition's records from the files of a broker that does not run."""
    found: list[tuple[int, Record]] = []
    for path in sorted((data_dir / f"{topic}-{partition}").glob("*.log")):
        for batch in iter_batches(path.read_bytes()):
            found += [
                (one.offset, Record.parse(bytes(one.value))) for one in read_records(batch.data)
            ]
    return found


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(BROKERS, config=CONFIG) as cluster:
        yield cluster


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_acknowledged_survives_what_happens_to_brokers(cluster: Cluster, seed: int):
    topic = f"chaos-{seed}"
    with Client(cluster.bootstrap_servers) as client:
        Admin(client).create_topic(topic, partitions=PARTITIONS, replication_factor=BROKERS)
    chaos = Chaos(cluster, random.Random(seed), topic)
    writers: list[Writer] = [
        kind(kind.__name__, cluster.bootstrap_servers, topic, PARTITIONS)
        for kind in (Librdkafka, Aiokafka, Ours)
    ]
    reader = Reader("reader", cluster.bootstrap_servers, topic, PARTITIONS)
    workers: list[Worker] = [*writers, reader]
    try:
        for worker in workers:
            worker.start()
        for _ in range(STEPS):
            chaos.step()
            for writer in writers:
                writer.wait_for_more()
            chaos.heal()
        for worker in workers:
            worker.stop()
        chaos.heal()
        cluster.stop()
        check(cluster, topic, writers, reader)
    except BaseException as error:
        raise AssertionError(f"seed {seed}: {', '.join(chaos.history)}") from error
    finally:
        for worker in workers:
            worker._stopping.set()


def check(cluster: Cluster, topic: str, writers: list[Writer], reader: Reader) -> None:
    """Replicas are the same, and what is in them is what everybody was told."""
    logs: dict[int, Log] = {}
    for partition in range(PARTITIONS):
        replicas = {
            id_: read_log(cluster.data_dir_of(id_), topic, partition) for id_ in cluster.brokers
        }
        assert differences(replicas) == []
        logs[partition] = replicas[1]
    acknowledged = {record: place for one in writers for record, place in one.acknowledged.items()}
    assert (
        anomalies(acknowledged, (r for one in writers for r in one.sent), reader.seen, logs) == []
    )
    assert reader.seen
