"""A disk that was replaced by an empty one: what heals by itself, and what says that it cannot."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cli.main import main
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer
from fencepost.log.properties import decode_properties, encode_properties
from fencepost.testing.ports import free_ports
from fencepost.testing.quorum_cluster import QuorumCluster
from fencepost.views.topics import NO_LOG

from ..broker.metrics.scraping import get, scrape
from ..waiting import eventually
from .conftest import QUICK

CONFIG = QUICK | {
    "broker.heartbeat.interval.ms": 300,
    "broker.session.timeout.ms": 3_000,
    "replica.fetch.backoff.ms": 100,
}
STAYS, REPLACED = 2, 3
"""Brokers: one keeps its disks, the other gets an empty one."""
PARTITIONS = 6
RECORDS = 5


class World:
    """A controller and two brokers; the second has two log directories."""

    def __init__(self, directory: Path) -> None:
        self.cluster = QuorumCluster(1, 2, directory=directory, config=CONFIG)
        self.node = self.cluster.brokers[REPLACED]
        self.disks = [self.node.directory / "data", self.node.directory / "disk-2"]
        (self.metrics_port,) = free_ports(1)
        self.configure(
            **{
                "log.dirs": ",".join(map(str, self.disks)),
                "fencepost.metrics.listener": str(self.metrics_port),
            }
        )

    def configure(self, **keys: str) -> None:
        """Change the broker's file."""
        path = self.node.config_path
        entries = decode_properties(str(path), path.read_bytes())
        path.write_bytes(encode_properties({**entries, **keys}))

    def restart(self) -> None:
        """Start the broker that was stopped, and wait until it is ready."""
        self.node.start()
        self.node.wait_until_ready()

    def fill(self, client: Cluster) -> None:
        """Topics with a copy elsewhere and without one, on both directories, and records."""
        admin = Admin(client)
        admin.create_topic("copied", PARTITIONS, 2)
        both = {number: [REPLACED] for number in range(2)}
        admin.create_topic("alone", assignments=both)
        with Producer(client) as producer:
            for topic, count in (("copied", PARTITIONS), ("alone", 2)):
                for partition in range(count):
                    for number in range(RECORDS):
                        producer.send(topic, b"%d" % number, partition=partition)
        eventually(lambda: self.isr(client) == [{STAYS, REPLACED}] * PARTITIONS)

    def isr(self, client: Cluster, topic: str = "copied") -> list[set[int]]:
        """Who is in sync, by partition."""
        partitions = Admin(client).describe_topic(topic).partitions
        return [set(partitions[number].isr) for number in sorted(partitions)]

    def ready(self) -> str:
        return get(self.metrics_port, "/ready").text

    def partitions_in(self, disk: Path, topic: str) -> list[int]:
        return sorted(int(one.name.rpartition("-")[2]) for one in disk.glob(f"{topic}-*"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    with made.cluster:
        yield made


def described(capsys: pytest.CaptureFixture[str], world: World, topic: str) -> str:
    capsys.readouterr()
    assert main(["topics", "describe", topic, "-b", world.cluster.bootstrap_servers]) == 0
    return capsys.readouterr().out


def test_replicas_of_a_replaced_disk_are_fetched_and_an_only_copy_is_reported(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(world.cluster.bootstrap_servers) as client:
        world.fill(client)
        lost = world.disks[1]
        (alone,) = world.partitions_in(lost, "alone")
        assert world.partitions_in(lost, "copied")
        world.node.stop()
        shutil.rmtree(lost)
        lost.mkdir()
        world.restart()
        eventually(lambda: world.isr(client) == [{STAYS, REPLACED}] * PARTITIONS)
        log = world.node.log_text
        assert "new cluster" not in log.partition("disk-2")[2]
        warned = [line for line in log.splitlines() if "WARN" in line and f"alone-{alone}" in line]
        assert warned
        name = f"alone-{alone}"
        for said in (warned[-1], world.ready()):
            assert name in said
            assert "fencepost.accept.loss" in said
        told = described(capsys, world, "alone")
        assert f"partition {alone}, replica {REPLACED}: {NO_LOG}" in told
        found = scrape(world.metrics_port)
        assert found.value("kafka_server_replicamanager_offlinereplicacount") == 1
        assert found.value("fencepost_replicas_halted", cause="only_copy_missing") == 1
        assert "copied" not in world.ready()
        # The way out that gives the records up.
        world.node.stop()
        world.configure(**{"fencepost.accept.loss": name})
        world.restart()
        eventually(lambda: world.isr(client, "alone") == [{REPLACED}] * 2)
        assert world.ready() == "ready\n"


@pytest.mark.long
@pytest.mark.parametrize("lost", [[0], [0, 1]], ids=["the metadata log's", "all"])
def test_a_broker_whose_metadata_disk_was_replaced_is_formatted_and_fetches_all(
    world: World, lost: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    format_it = ["format", "--cluster-id", world.cluster.cluster_id, "--ignore-formatted"]
    with Cluster(world.cluster.bootstrap_servers) as client:
        world.fill(client)
        world.node.stop()
        for number in lost:
            shutil.rmtree(world.disks[number])
            world.disks[number].mkdir()
        world.node.start()
        assert world.node.wait() == 1
        said = world.node.log_text.splitlines()[-1]
        assert "fencepost format" in said
        assert main([*format_it, "--config", str(world.node.config_path)]) == 0
        world.restart()
        eventually(lambda: world.isr(client) == [{STAYS, REPLACED}] * PARTITIONS)
        assert "fencepost.accept.loss" in world.ready()


@pytest.mark.long
def test_a_directory_that_fails_is_replaced_while_the_broker_serves_the_other(world: World) -> None:
    """What an operator sees of a disk that fails at the start, and of the empty one after it."""
    with Cluster(world.cluster.bootstrap_servers) as client:
        world.fill(client)
        bad = world.disks[1]
        copied = world.partitions_in(bad, "copied")
        world.node.stop()
        shutil.rmtree(bad)
        bad.write_text("no directory")
        world.restart()
        assert f"the log directory {bad} is offline" in world.ready()
        found = scrape(world.metrics_port)
        assert found.value("fencepost_replicas_halted", cause="directory_offline") > len(copied)
        halted = [number for number, isr in enumerate(world.isr(client)) if REPLACED not in isr]
        assert set(copied) <= set(halted)
        world.node.stop()
        bad.unlink()
        world.restart()
        eventually(lambda: world.isr(client) == [{STAYS, REPLACED}] * PARTITIONS)


@pytest.mark.long
def test_a_broker_of_another_cluster_says_so(world: World) -> None:
    world.node.stop()
    for disk in world.disks:
        shutil.rmtree(disk)
    other = ["format", "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg"]
    assert main([*other, "--config", str(world.node.config_path)]) == 0
    world.node.start()
    said = "belongs to another cluster"
    eventually(lambda: said in world.node.log_text)
    assert said in world.ready()
    assert scrape(world.metrics_port).value("fencepost_ready") == 0
    world.node.kill()


@pytest.mark.long
def test_an_unclean_election_ends_the_wait_for_an_only_copy(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other replica was not in sync when the disk with all of the records went."""
    stays = world.cluster.brokers[STAYS]
    with Cluster(world.cluster.bootstrap_servers) as client:
        world.fill(client)
        lost = world.partitions_in(world.disks[1], "copied")
        stays.stop()
        eventually(lambda: world.isr(client) == [{REPLACED}] * PARTITIONS)
        with Producer(client) as producer:
            for partition in lost:
                producer.send("copied", b"not on the other", partition=partition)
        world.node.stop()
        shutil.rmtree(world.disks[1])
        world.disks[1].mkdir()
        stays.start()
        stays.wait_until_ready()
        world.restart()
        eventually(lambda: world.ready().count("fencepost.accept.loss"))
        for partition in lost:
            told = described(capsys, world, "copied")
            assert f"partition {partition}, replica {REPLACED}: {NO_LOG}" in told
        named = [f"copied:{partition}" for partition in lost]
        assert main(["elect", "unclean", *named, "-b", world.cluster.bootstrap_servers]) == 0
        eventually(lambda: world.isr(client) == [{STAYS, REPLACED}] * PARTITIONS)
