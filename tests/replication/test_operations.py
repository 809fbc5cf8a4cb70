"""Every procedure of docs/OPERATIONS.md, carried out as the page says, on nodes in processes."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from .operations_guide import Site, opened, procedure

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Machines without anything on them."""
    yield from opened(tmp_path)


def test_three_combined_nodes_are_a_cluster(site: Site) -> None:
    site.carry_out("### Combined nodes")
    quorum = site.command("h1", "fencepost quorum describe").split("\n", 2)[2]
    assert sorted(line.split()[2] for line in quorum.splitlines()) == [
        "follower",
        "follower",
        "leader",
    ]
    brokers = site.command("h1", "fencepost brokers list").splitlines()[1:]
    assert [line.split()[3] for line in brokers] == ["unfenced"] * 3
    topic = site.command("h2", "fencepost topics describe orders").splitlines()[2:]
    assert len(topic) == 6
    for line in topic:
        _, _, _, replicas, isr, *_ = line.split()
        assert sorted(replicas.split(",")) == sorted(isr.split(",")) == ["1", "2", "3"]


def test_controllers_and_brokers_apart_are_a_cluster(site: Site) -> None:
    site.carry_out("### Controllers and brokers apart")
    listed = site.command("b1", "fencepost brokers list -b b1:9092").splitlines()[1:]
    assert [(line.split()[0], line.split()[3]) for line in listed] == [
        ("11", "unfenced"),
        ("12", "unfenced"),
        ("13", "unfenced"),
    ]
    topic = site.command("b2", "fencepost topics describe orders -b b3:9092").splitlines()[2:]
    assert {tuple(sorted(line.split()[4].split(","))) for line in topic} == {("11", "12", "13")}


@pytest.fixture
def cluster(site: Site) -> Site:
    """The three combined nodes of the page, and records in their topic."""
    site.carry_out("### Combined nodes")
    produce(site, "first")
    return site


def produce(site: Site, *values: str) -> None:
    """Write records with acks=all; AssertionError if they are not acknowledged."""
    lines = "\\n".join(values)
    site.command("h1", f"printf '{lines}\\n' | fencepost produce orders")


def values(site: Site) -> list[str]:
    """All records of the topic, by partition."""
    return sorted(site.command("h1", "fencepost consume orders").split())


def voters(site: Site) -> set[int]:
    quorum = site.command("h1", "fencepost quorum describe").splitlines()[2:]
    rows = [line.split() for line in quorum]
    return {int(row[0]) for row in rows if row[2] in ("leader", "follower")}


def replicas(site: Site) -> set[int]:
    """Brokers that have replicas of the topic, all of them in sync."""
    topic = site.command("h1", "fencepost topics describe orders").splitlines()[2:]
    assert all(
        sorted(row[3].split(",")) == sorted(row[4].split(",")) for row in map(str.split, topic)
    )
    return {int(one) for line in topic for one in line.split()[3].split(",")}


def test_a_rolling_restart_loses_nothing_that_is_written_between_the_nodes(cluster: Site) -> None:
    pids = {host: cluster.node(host).pid for host in ("h1", "h2", "h3")}
    (block,) = procedure("## Rolling restart")
    for number, host in enumerate(block.hosts):
        cluster.run(replace(block, place=f"# on {host}"))
        produce(cluster, f"after-{number}")
        assert cluster.node(host).pid != pids[host]
    assert values(cluster) == ["after-0", "after-1", "after-2", "first"]


def test_after_an_upgrade_the_level_is_raised(site: Site) -> None:
    site.format_options = "--release-version 4.2"
    site.carry_out("### Combined nodes")
    before = site.command("h1", "fencepost features describe")
    site.carry_out("## Upgrade")
    after = site.command("h2", "fencepost features describe")
    assert level(before, "metadata.version") < level(after, "metadata.version") == 33
    assert level(before, "share.version") < level(after, "share.version") == 2


def level(described: str, feature: str) -> int:
    document = [line.split() for line in described.splitlines() if line.startswith(feature)]
    return int(document[0][1])


def test_a_broker_is_added_gets_replicas_and_is_removed(cluster: Site) -> None:
    cluster.carry_out("## Adding a broker")
    assert replicas(cluster) == {1, 2, 3, 4}
    cluster.carry_out("## Removing a broker")
    (said,) = cluster.wait_for_running()
    assert said.splitlines()[-1] == "broker 4 is decommissioned"
    assert replicas(cluster) == {1, 2, 3}
    listed = cluster.command("h1", "fencepost brokers list").splitlines()[1:]
    assert [line.split()[0] for line in listed] == ["1", "2", "3"]
    assert values(cluster) == ["first"]


def test_a_controller_is_added_and_removed(cluster: Site) -> None:
    cluster.carry_out("## Adding a controller")
    assert voters(cluster) == {1, 2, 3, 5}
    cluster.carry_out("## Removing a controller")
    assert voters(cluster) == {1, 2, 3}
    produce(cluster, "second")


def test_a_data_disk_is_replaced(cluster: Site) -> None:
    disk = Path(cluster.here("h3", "/var/lib/fencepost/disk2"))
    stop, start = procedure("### A data disk")
    lost = sorted(one.name for one in disk.glob("orders-*"))
    assert lost
    cluster.run(stop)
    empty(disk)
    cluster.run(start)
    there = [one.name for one in disk.parent.glob("disk*/orders-*")]
    assert set(lost) <= set(there)
    assert f"{disk} was empty; formatted it" in cluster.node("h3").log_tail
    assert replicas(cluster) == {1, 2, 3}


def test_the_disk_with_the_metadata_log_is_replaced(cluster: Site) -> None:
    disk = Path(cluster.here("h3", "/var/lib/fencepost/metadata"))
    cluster.command("h3", "systemctl stop fencepost")
    before = (disk / "meta.properties").read_text()
    empty(disk)
    cluster.carry_out("### The disk with the metadata log")
    assert (disk / "meta.properties").read_text() != before
    assert voters(cluster) == {1, 2, 3}
    assert replicas(cluster) == {1, 2, 3}
    produce(cluster, "second")
    assert values(cluster) == ["first", "second"]


def empty(disk: Path) -> None:
    """An empty disk in the place of this one."""
    shutil.rmtree(disk)
    disk.mkdir()


def test_a_backup_is_restored_as_it_was(cluster: Site) -> None:
    cluster.carry_out("### Directories of stopped nodes")
    cluster.run(procedure("### Restore")[-1])
    produce(cluster, "lost")
    cluster.carry_out("### Restore")
    assert values(cluster) == ["first"]
    assert replicas(cluster) == {1, 2, 3}
    produce(cluster, "again")
    assert values(cluster) == ["again", "first"]


@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_a_topic_is_archived_into_files_and_replayed(cluster: Site) -> None:
    produce(cluster, "second", "third")
    cluster.carry_out("### Topics as files")
    read = "fencepost consume orders-again --isolation read_committed"
    assert sorted(cluster.command("h1", read).split()) == values(cluster)


def test_a_disk_that_was_full_is_whole_again(cluster: Site) -> None:
    """A limit on the size of the node's files stands for the disk; the next start has none."""
    node = cluster.node("h3")
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    lines = "head -c 3000000 /dev/zero | tr '\\0' x | fold -w 1000"
    cluster.command("h1", f"({lines}; echo) | fencepost produce orders --linger-ms 50")
    assert node.wait() == 1, "both data directories have failed"
    assert "File too large" in node.log_tail
    shown = cluster.command("h1", "fencepost topics describe --under-replicated")
    assert shown.strip()
    written = len(values(cluster))
    assert written == 3001
    cluster.carry_out("## A full disk")
    assert replicas(cluster) == {1, 2, 3}
    assert len(values(cluster)) == written


def test_a_producer_whose_clock_is_ahead_is_refused_until_the_broker_stamps(cluster: Site) -> None:
    line = '{"value": "ahead", "timestamp": 4102444800000}'
    written = f"echo '{line}' | fencepost produce orders --lines-json"
    with pytest.raises(AssertionError, match="INVALID_TIMESTAMP"):
        cluster.command("h1", written)
    cluster.carry_out("## The clock")
    cluster.command("h1", written)
    stamped = cluster.command("h1", "fencepost consume orders --format '%T %s\\n'").splitlines()
    (ahead,) = [int(row.split()[0]) for row in stamped if row.endswith("ahead")]
    assert ahead < 4102444800000
