"""Brokers harmed by a seed while three clients write and one reads; then Apache Kafka's own.

They are killed, stopped, paused and cut off, their links are slow, their disks are full, their
clocks jump (`machine.py`; what cannot be had here is drawn all the same, and not done). One broker
at a time is harmed, often the leader of a partition; with two of three replicas in sync the writers
must go on. In the end nothing may be lost, repeated, out of order or taken back, and all replicas
must be the same. FENCEPOST_CHAOS_SEEDS=N tries N seeds, FENCEPOST_CHAOS_SEED=S one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from fencepost.batch.record_batch import iter_batches
from fencepost.batch.records import read_records
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.errors import ClientError
from fencepost.testing import Cluster

from ..interop.apache import KAFKA
from ..waiting import eventually
from .history import Log, Record, anomalies, differences
from .java_clients import JavaReader, JavaWriter
from .machine import NodeClocks, SmallDisks, libfaketime, limit_files
from .writers import Aiokafka, Librdkafka, LibrdkafkaReader, Ours, Reader, Worker, Writer

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
    # A clock that jumps must not have records refused whose clients' clocks did not.
    "log.message.timestamp.after.max.ms": 2**62,
    "offsets.topic.num.partitions": 1,
}
HARM = (
    "kill", "stop", "pause", "cut", "cut what it sends", "cut what it hears",
    "slow", "full disk", "files at their limit", "clock",
)  # fmt: skip
JUMPS_S = (1, 60, 3_600, 20 * 3_600)


@dataclass
class Rig:
    """A cluster, and what can be done to the machines that its brokers are on."""

    cluster: Cluster
    disks: SmallDisks
    clocks: NodeClocks

    def lacks(self) -> list[str]:
        """What cannot be had here."""
        return [reason for reason in (self.disks.lacks, self.clocks.lacks) if reason]


class Chaos:
    """Does harm to one broker after the other and knows how to undo it."""

    def __init__(self, rig: Rig, dice: random.Random, topic: str) -> None:
        self._rig, self._cluster, self._dice, self._topic = rig, rig.cluster, dice, topic
        self.history: list[str] = []

    def step(self) -> None:
        """Harm a broker, more often than not one that leads partition 0."""
        cluster, dice = self._cluster, self._dice
        leader = self._leader()
        id_ = leader if leader > 0 and dice.random() < 0.6 else dice.choice(list(cluster.brokers))
        what = dice.choice(HARM)
        delay_ms, bytes_per_s = dice.randrange(500), dice.choice((20_000, 100_000, None))
        spare_bytes = dice.choice((0, 4_096, 65_536))
        ahead_s = dice.choice(JUMPS_S) * dice.choice((1, -1))
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
        elif what == "cut what it hears":
            cluster.cut(None, id_, one_way=True)
        elif what == "slow":
            self.history[-1] += f" by {delay_ms} ms, {bytes_per_s} bytes/s"
            cluster.slow(id_, delay_ms=delay_ms + 1, bytes_per_s=bytes_per_s)
        elif what == "full disk":
            self.history[-1] += f" but for {spare_bytes} bytes"
            self._rig.disks.fill(id_, spare_bytes)
        elif what == "files at their limit":
            self.history[-1] += f" of {spare_bytes} bytes"
            limit_files(cluster.nodes[id_].pid, spare_bytes)
        else:
            self.history[-1] += f" by {ahead_s} s"
            self._rig.clocks.set(id_, ahead_s)

    def heal(self) -> None:
        """Everybody runs, is reached, and is in every in-sync set again. Clocks stay wrong."""
        self.history.append("heal")
        self._cluster.heal()
        self._rig.disks.empty()
        for node in self._cluster.brokers.values():
            if node.running:
                limit_files(node.pid, None)
        eventually(self._is_running_and_whole, "not all replicas are in sync")

    def _is_running_and_whole(self) -> bool:
        """Whether all is well; who ends late, of a full disk, is started when it has ended."""
        for id_, node in self._cluster.brokers.items():
            if not node.running:
                self.history.append(f"start {id_}")
                self._cluster.start(id_)
            elif node.is_paused:
                node.resume()
        return self._is_whole()

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
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    cluster = Cluster(BROKERS, config=CONFIG, data_dir=tmp_path / "cluster")
    disks = SmallDisks(cluster)
    clocks = NodeClocks(cluster)
    try:
        with monkeypatch.context() as patch:
            for name, value in clocks.environment.items():
                patch.setenv(name, value)
            cluster.prepare()
        with cluster:
            yield Rig(cluster, disks, clocks)
    finally:
        disks.close()


def live(rig: Rig, seed: int, writers: Sequence[type[Writer]], reads: type[Reader]) -> None:
    """A life of `STEPS` accidents, and what is found in the end."""
    cluster, topic = rig.cluster, f"chaos-{seed}"
    with Client(cluster.bootstrap_servers) as client:
        Admin(client).create_topic(topic, partitions=PARTITIONS, replication_factor=BROKERS)
    chaos = Chaos(rig, random.Random(seed), topic)
    writing = [
        kind(kind.__name__, cluster.bootstrap_servers, topic, PARTITIONS) for kind in writers
    ]
    reader = reads("reader", cluster.bootstrap_servers, topic, PARTITIONS)
    workers: list[Worker] = [*writing, reader]
    try:
        for worker in workers:
            worker.start()
        for writer in writing:
            writer.wait_for_more()
        for _ in range(STEPS):
            chaos.step()
            for writer in writing:
                writer.wait_for_more()
            chaos.heal()
        for worker in workers:
            worker.stop()
        chaos.heal()
        cluster.stop()
        check(cluster, topic, writing, reader)
    except BaseException as error:
        raise AssertionError(f"seed {seed}: {', '.join(chaos.history)}") from error
    finally:
        for worker in workers:
            worker.abandon()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_acknowledged_survives_what_happens_to_brokers(rig: Rig, seed: int):
    live(rig, seed, (Librdkafka, Aiokafka, Ours), LibrdkafkaReader)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_apache_kafkas_clients_were_told_survives(rig: Rig, seed: int):
    if not KAFKA.directory.is_dir():
        pytest.skip(f"no {KAFKA.directory}: `make interop` fetches Apache Kafka's jars")
    live(rig, seed, (JavaWriter, Ours), JavaReader)


def test_everything_can_be_done_to_brokers_here(rig: Rig):
    if rig.lacks():
        pytest.skip("; ".join(rig.lacks()))
    assert libfaketime()


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
