"""Fencepost's controllers and Apache Kafka's in one quorum, under a broker of Apache Kafka.

All nodes' logs are the same, byte for byte, under leaders of either kind; each follows, votes,
leads, and takes snapshots that the other installs.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client.admin import Admin, ConfigChange
from fencepost.client.cluster import Cluster as Client
from fencepost.client.connection import Connection
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest

from ..waiting import eventually
from . import apache
from .quorum import APACHE, FENCEPOST, Node, Quorum
from .quorum_images import check_snapshots
from .quorum_mixed import (
    BROKER,
    SMALL_SNAPSHOTS,
    create,
    is_caught_up,
    knows,
    let_lead,
    mixed,
    topics,
    wait_for_all,
    wait_for_same_logs,
)

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(240)]

TOPIC_RESOURCE = 2
STATIC_AND_DYNAMIC = pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])


@pytest.fixture
def home(kafka_jars, tmp_path: Path) -> Path:
    """Where a quorum lives."""
    return tmp_path


@STATIC_AND_DYNAMIC
def test_ours_follows_and_votes(home: Path, is_dynamic: bool) -> None:
    with mixed(home, is_dynamic=is_dynamic) as quorum:
        ours, *theirs = quorum.voters
        quorum.start(2, 3, BROKER)
        quorum.wait_for_leader()
        create(quorum, "before")
        quorum.start(1)
        create(quorum, "after")
        eventually(lambda: is_caught_up(quorum, ours), "ours has everything")
        wait_for_same_logs(*quorum.voters)
        led = quorum.wait_for_leader()
        (heir,) = (node for node in theirs if node is not led)
        quorum.kill_leader(heir, lambda topic: create(quorum, topic))
        create(quorum, "with-our-vote")
        led.start()
        eventually(lambda: is_caught_up(quorum, led), "it is back")
        wait_for_same_logs(*quorum.voters)


@STATIC_AND_DYNAMIC
def test_ours_leads(home: Path, is_dynamic: bool) -> None:
    with mixed(home, is_dynamic=is_dynamic) as quorum:
        ours = quorum.voters[0]
        quorum.start()
        quorum.wait_for_leader()
        create(quorum, "under-theirs")
        let_lead(quorum, ours)
        assert knows(quorum, "under-theirs")
        create(quorum, "under-ours")
        eventually(lambda: "under-ours" in topics(quorum), "Kafka's broker knows the topic")
        wait_for_all(quorum)
        wait_for_same_logs(*quorum.nodes.values())
        said = ours.describe()
        assert said is not None and said.leader_id == ours.node_id
        assert ours.stop() == 0
        quorum.wait_for_leader()
        assert knows(quorum, "under-ours"), "Kafka's controller has read what ours wrote"
        create(quorum, "under-theirs-again")
        ours.start()
        eventually(lambda: is_caught_up(quorum, ours), "ours is back")
        wait_for_same_logs(*quorum.nodes.values())


def test_each_installs_the_others_snapshot(home: Path) -> None:
    with mixed(home, config=SMALL_SNAPSHOTS) as quorum:
        ours = quorum.voters[0]
        quorum.start(2, 3, BROKER)
        led = quorum.wait_for_leader()
        create(quorum, "a", 100)
        eventually(lambda: led.snapshots(), "Kafka's controllers have taken a snapshot")
        ours.start()
        eventually(lambda: is_caught_up(quorum, ours), "ours has everything")
        assert ours.snapshots()[0].name in {path.name for path in led.snapshots()}
        assert ours.log_start() == int(ours.snapshots()[0].name[:20])
        ours.kill()
        ours.start()
        eventually(lambda: is_caught_up(quorum, ours), "ours goes on from Kafka's snapshot")
        quorum.kill_leader(ours, lambda topic: create(quorum, topic))
        create(quorum, "b", 100)
        create(quorum, "c", 100)
        eventually(lambda: len(ours.snapshots()) > 1, "ours has taken snapshots")
        shutil.rmtree(led.data_dir)
        led.format()
        led.start()
        eventually(lambda: is_caught_up(quorum, led), "the one without a log has everything")
        assert led.snapshots()[0].name in {path.name for path in ours.snapshots()}
        assert led.log_start() == int(led.snapshots()[0].name[:20])
        wait_for_same_logs(*quorum.voters)
        quorum.kill_leader(led, lambda topic: create(quorum, topic))
        assert all(knows(quorum, topic) for topic in "abc")
        create(quorum, "d", 100)
        quorum.nodes[ours.node_id].start()
        wait_for_all(quorum)
        check_snapshots(quorum)


def test_kafkas_tool_adds_ours_and_removes_it(home: Path) -> None:
    with Quorum(home, (APACHE, APACHE), (APACHE,), is_dynamic=True) as quorum:
        quorum.format()
        quorum.start()
        quorum.wait_for_leader()
        create(quorum, "a")
        ours = quorum.add_controller(FENCEPOST, 3)
        ours.start()
        eventually(lambda: is_caught_up(quorum, ours), "ours observes")
        metadata_quorum(quorum, "add-controller", config=ours)
        assert voters(quorum) == {1, 2, 3}
        led = quorum.wait_for_leader()
        (other,) = (node for node in quorum.voters if node is not led)
        quorum.kill_leader(ours, lambda topic: create(quorum, topic))  # one that was added may lead
        led.start()
        assert knows(quorum, "a")
        eventually(lambda: is_caught_up(quorum, led), "the old leader follows")
        remove_controller(quorum, led)
        assert voters(quorum) == {3, other.node_id}
        metadata_quorum(quorum, "add-controller", config=led)
        assert voters(quorum) == {1, 2, 3}, "ours takes Kafka's as a voter"
        remove_controller(quorum, ours)
        eventually(lambda: quorum.leader() not in (None, ours), "ours has handed over")
        assert voters(quorum) == {1, 2}
        create(quorum, "b")
        eventually(lambda: is_caught_up(quorum, ours), "ours observes again")
        wait_for_same_logs(ours, *quorum.voters)


def metadata_quorum(quorum: Quorum, *arguments: str, config: Node | None = None) -> str:
    """Run Kafka's tool against the controllers, with a node's configuration if it wants one."""
    where = ("--bootstrap-controller", quorum.bootstrap_controllers)
    if config is not None:
        where = ("--command-config", str(config.config_path), *where)
    return apache.run_tool("metadata-quorum", *where, *arguments).stdout


def remove_controller(quorum: Quorum, node: Node) -> None:
    metadata_quorum(
        quorum, "remove-controller", "--controller-id", str(node.node_id),
        "--controller-directory-id", node.stored_directory_id(),
    )  # fmt: skip


def voters(quorum: Quorum) -> set[int]:
    leader = quorum.wait_for_leader()
    said = leader.describe()
    return set() if said is None else {voter.replica_id for voter in said.current_voters}


@contextlib.contextmanager
def as_kind(node: Node, kind: str) -> Iterator[None]:
    """Let the other kind's program run on a node's directory for a while."""
    before, node.kind = node.kind, kind
    try:
        yield
    finally:
        node.kind = before


def test_a_controllers_directory_changes_hands(home: Path) -> None:
    with mixed(home, config=SMALL_SNAPSHOTS) as quorum:
        ours = quorum.voters[0]
        quorum.start()
        quorum.wait_for_leader()
        create(quorum, "a", 100)
        eventually(lambda: is_caught_up(quorum, ours), "ours has everything")
        ours.stop()
        create(quorum, "b")
        with as_kind(ours, APACHE):
            ours.start()
            eventually(lambda: is_caught_up(quorum, ours), "Kafka goes on with our directory")
            wait_for_same_logs(*quorum.voters)
            ours.stop()
        create(quorum, "c")
        ours.start()
        eventually(lambda: is_caught_up(quorum, ours), "ours goes on with Kafka's directory")
        wait_for_same_logs(*quorum.voters)


@pytest.mark.parametrize("heir", [FENCEPOST, APACHE])
def test_static_voters_become_dynamic(home: Path, heir: str) -> None:
    with mixed(home) as quorum:
        quorum.start()
        let_one_lead(quorum, heir)
        create(quorum, "a")
        wait_for_all(quorum)
        where = ("--bootstrap-controller", quorum.bootstrap_controllers)

        def is_upgraded() -> bool:
            """It is refused until the leader has heard from everybody what they can."""
            upgrade = ("upgrade", "--feature", "kraft.version=1")
            said = apache.run_tool("features", *where, *upgrade, check=False)
            return said.stdout.strip() == "kraft.version was upgraded to 1."

        eventually(is_upgraded, "kraft.version is 1")
        leader = quorum.wait_for_leader().describe()
        assert leader is not None
        ids = {str(v.replica_directory_id) for v in leader.current_voters}
        assert ids == {node.stored_directory_id() for node in quorum.voters}
        create(quorum, "b")
        wait_for_all(quorum)
        wait_for_same_logs(*quorum.voters)


def let_one_lead(quorum: Quorum, kind: str) -> Node:
    """Have a voter of this kind lead."""
    leader = quorum.wait_for_leader()
    if leader.kind != kind:
        leader = next(node for node in quorum.voters if node.kind == kind)
    let_lead(quorum, leader)
    return leader


@pytest.mark.parametrize("kind", [APACHE, FENCEPOST])
def test_what_no_majority_has_is_cut_off(home: Path, kind: str) -> None:
    # Long enough for the leader to write alone, and to be killed before it resigns.
    with mixed(home, config={"controller.quorum.fetch.timeout.ms": "10000"}) as quorum:
        broker = quorum.nodes[BROKER]
        quorum.start()
        leader = let_one_lead(quorum, kind)
        create(quorum, "before")
        wait_for_all(quorum)
        others = [node for node in quorum.voters if node is not leader]
        for node in others:
            node.kill()
        before = leader.metadata_log()
        with Connection(apache.HOST, leader.port) as connection:
            lost = CreatableTopic(name="lost", num_partitions=1, replication_factor=1)
            connection.send(CreateTopicsRequest(topics=[lost], timeout_ms=60_000))
            eventually(lambda: len(leader.metadata_log()) > len(before), "it is written")
            eventually(lambda: len(broker.metadata_log()) > len(before), "the broker has it")
            leader.kill()
        tail = leader.metadata_log()
        quorum.start(*(node.node_id for node in others))
        assert quorum.wait_for_leader() is not leader
        create(quorum, "instead")
        leader.start()
        wait_for_all(quorum)
        wait_for_same_logs(*quorum.nodes.values())
        now = leader.metadata_log()
        assert now.startswith(before) and not now.startswith(tail), "the end is another one"
        assert knows(quorum, "before") and knows(quorum, "instead") and not knows(quorum, "lost")


def test_a_leader_dies_while_ours_loads_its_snapshot(home: Path) -> None:
    pieces = {"controller.quorum.fetch.snapshot.max.bytes": "1024", **SMALL_SNAPSHOTS}
    with mixed(home, config=pieces) as quorum:
        ours = quorum.voters[0]
        quorum.start(2, 3, BROKER)
        led = quorum.wait_for_leader()
        with Client(quorum.nodes[BROKER].address) as client:
            for name in map(str, range(10)):  # a snapshot of 300 pieces
                Admin(client).create_topic(name, 1)
                long = ",".join(["1:101"] * 5_000)
                change = ConfigChange("follower.replication.throttled.replicas", long)
                Admin(client).alter_configs(TOPIC_RESOURCE, name, [change])
        eventually(
            lambda: led.snapshots() and led.snapshots()[-1].stat().st_size > 200_000, "a snapshot"
        )
        ours.start(wait=False)
        eventually(lambda: list(ours.metadata_dir.glob("*.part")), "ours begins to load it")
        led.kill()
        assert not ours.snapshots(), "it has all of it already, so nothing was interrupted"
        assert quorum.wait_for_leader() is not ours, "it has nothing, and cannot lead"
        eventually(lambda: is_caught_up(quorum, ours), "it loads what the new leader has")
        led.start()
        create(quorum, "after")
        wait_for_all(quorum)
        wait_for_same_logs(*quorum.voters)
        assert check_snapshots(quorum)[ours.node_id] > 0
        assert not list(ours.metadata_dir.glob("*.part"))


def test_all_controllers_change_hands_one_by_one(home: Path) -> None:
    every = {"metadata.log.max.record.bytes.between.snapshots": "1000", **SMALL_SNAPSHOTS}
    with Quorum(home, (APACHE,) * 3, (APACHE,), is_dynamic=True, config=every) as quorum:
        quorum.format()
        quorum.start()
        quorum.wait_for_leader()
        made = set()
        for kind in (FENCEPOST, APACHE):
            for node in quorum.voters:
                node.stop()
                node.kind = kind
                node.start()
                made.add(f"{kind}-is-{node.node_id}")
                create(quorum, f"{kind}-is-{node.node_id}", 30)
                eventually(lambda node=node: is_caught_up(quorum, node), "it goes on")
            wait_for_same_logs(*quorum.nodes.values())
            said = quorum.wait_for_leader().describe()
            assert said is not None
            assert {str(v.replica_directory_id) for v in said.current_voters} == {
                str(node.directory_id) for node in quorum.voters
            }
        eventually(lambda: topics(quorum) == made, "the broker knows all of them")
        assert set(check_snapshots(quorum)) >= {node.node_id for node in quorum.voters}
