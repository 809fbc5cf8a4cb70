"""Every procedure of docs/OPERATIONS.md, carried out as the page says, on nodes in processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .operations_guide import Site, opened

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


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
