"""Three brokers that lose power at the same moment, again and again, while clients write and read.

Each node is broker and controller and has a file system of its own. No node's memory and no page
cache outlives a cut, so what is there afterwards is what was on disks: every record that was
acknowledged with acks=all has to be there, and no record that a consumer saw may be gone or
changed. In the end the three copies of each partition are the same.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.errors import ClientError
from fencepost.log.properties import decode_properties, encode_properties
from fencepost.testing.quorum_cluster import QuorumCluster

from ..replication.history import Log, anomalies, differences
from ..replication.test_chaos import read_log
from ..replication.writers import Aiokafka, Librdkafka, LibrdkafkaReader, Reader, Writer
from ..waiting import eventually
from .conftest import Tally
from .filesystem import MIB, Filesystem, try_make

pytestmark = [pytest.mark.clients, pytest.mark.timeout(7200)]

NODES, PARTITIONS, TOPIC = 3, 3, "kept"
CYCLES = int(os.environ.get("FENCEPOST_POWERLOSS_CLUSTER_CYCLES", "8"))
CONFIG = {
    "min.insync.replicas": 2,
    "broker.session.timeout.ms": 2_000,
    "broker.heartbeat.interval.ms": 200,
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.fetch.timeout.ms": 1_000,
    "replica.fetch.wait.max.ms": 100,
    "offsets.topic.num.partitions": 1,
}
IMAGE_BYTES = 96 * MIB


@dataclass
class Rig:
    """Three nodes and their disks."""

    cluster: QuorumCluster
    disks: list[Filesystem]

    def cut_power(self, dice: random.Random) -> None:
        """All at once: whether a process or its disk is first to go is a matter of luck."""
        nodes = list(self.cluster.nodes.values())
        dice.shuffle(nodes)
        are_processes_first = dice.random() < 0.5
        if are_processes_first:
            for node in nodes:
                node.kill_without_waiting()
        for disk in self.disks:
            disk.cut_power()
        for node in nodes:
            node.kill()

    def come_back(self) -> None:
        """There is power again, and everybody starts."""
        for disk in self.disks:
            disk.come_back()
        self.cluster.start()

    def data_dir_of(self, place: int) -> Path:
        """Where a node has its data."""
        return self.disks[place].path / "data"

    def is_whole(self) -> bool:
        """Whether everybody is in sync."""
        try:
            with Client(self.cluster.bootstrap_servers) as client:
                found = Admin(client).describe_topic(TOPIC).partitions.values()
        except ClientError:
            return False
        return all(len(one.isr) == NODES for one in found)


def make_disks(directory: Path) -> list[Filesystem]:
    """A file system for each node; skips with the reason where that cannot be."""
    disks: list[Filesystem] = []
    for number in range(NODES):
        place = directory / f"disk-{number}"
        place.mkdir()
        made = try_make("ext4", place, IMAGE_BYTES)
        if isinstance(made, str):
            for disk in disks:
                disk.close()
            pytest.skip(made)
        disks.append(made)
    return disks


@pytest.fixture
def rig(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rig]:
    """Made with the config that the test is parametrized with."""
    disks = make_disks(tmp_path)
    config = CONFIG | getattr(request, "param", {})
    cluster = QuorumCluster(NODES, 0, combined=True, directory=tmp_path / "cluster", config=config)
    try:
        for node, disk in zip(cluster.nodes.values(), disks, strict=True):
            path = node.config_path
            entries = decode_properties(str(path), path.read_bytes())
            target = disk.path / "data"
            shutil.copytree(entries["log.dirs"], target)
            path.write_bytes(encode_properties(entries | {"log.dirs": str(target)}))
        os.sync()  # what was formatted is there, whatever happens
        with cluster:
            yield Rig(cluster, disks)
    finally:
        cluster.close()
        for disk in disks:
            disk.close()


def clients_of(rig: Rig) -> tuple[list[Writer], Reader]:
    """Two writers and a reader of a new topic, which have not begun."""
    servers = rig.cluster.bootstrap_servers
    with Client(servers) as client:
        Admin(client).create_topic(TOPIC, partitions=PARTITIONS, replication_factor=NODES)
    writers: list[Writer] = [
        kind(kind.__name__, servers, TOPIC, PARTITIONS) for kind in (Librdkafka, Aiokafka)
    ]
    return writers, LibrdkafkaReader("reader", servers, TOPIC, PARTITIONS)


def live(rig: Rig, writers: list[Writer], reader: Reader, tally: Tally) -> None:
    """Write and read through power cuts; everybody has ended and the nodes run at the end."""
    dice = random.Random(7)
    workers = [*writers, reader]
    try:
        for worker in workers:
            worker.start()
        for _ in range(CYCLES):
            for writer in writers:
                writer.wait_for_more(dice.randrange(1, 40))
            rig.cut_power(dice)
            tally.cycles += 1
            rig.come_back()
        for writer in writers:
            writer.wait_for_more()
        eventually(rig.is_whole, "not all replicas are in sync")
        for worker in workers:
            worker.stop()
    finally:
        for worker in workers:
            worker.abandon()
        tally.acknowledged = sum(len(one.acknowledged) for one in writers)


def found(rig: Rig) -> tuple[list[str], dict[int, Log]]:
    """Where the replicas differ, and the logs; the nodes are stopped for it."""
    rig.cluster.stop()
    differing: list[str] = []
    logs: dict[int, Log] = {}
    for partition in range(PARTITIONS):
        replicas = {
            place: read_log(rig.data_dir_of(place), TOPIC, partition) for place in range(NODES)
        }
        differing += differences(replicas)
        logs[partition] = replicas[0]
    return differing, logs


def test_nothing_acknowledged_is_lost_when_all_brokers_lose_power(rig: Rig, tally: Tally):
    writers, reader = clients_of(rig)
    live(rig, writers, reader, tally)
    differing, logs = found(rig)
    acknowledged = {record: place for one in writers for record, place in one.acknowledged.items()}
    wrong = anomalies(acknowledged, (r for one in writers for r in one.sent), reader.seen, logs)
    tally.acknowledged_lost = sum(one.startswith("lost") for one in wrong)
    assert differing == []
    assert wrong == []
    assert reader.seen
    assert "AssertionError" not in "".join(one.log_text for one in rig.cluster.nodes.values())


@pytest.mark.parametrize("rig", [{"log.flush.before.ack": False}], indirect=True)
def test_brokers_that_do_not_sync_are_found_out(rig: Rig):
    """Kafka's own way, acknowledging from page caches: the same check must find losses."""
    writers, _ = clients_of(rig)
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.wait_for_more(50)
        writer.stop()
    acknowledged = {record for one in writers for record in one.acknowledged}
    rig.cut_power(random.Random(7))
    rig.come_back()
    _, logs = found(rig)
    assert not acknowledged <= {record for log in logs.values() for _, record in log}
