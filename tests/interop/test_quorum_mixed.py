"""Fencepost's controllers and Apache Kafka's in one quorum, under a broker of Apache Kafka.

Everybody's log is the same, byte for byte, whoever leads; each follows, votes, leads, and takes
snapshots that the other installs.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.errors import BrokerError
from fencepost.wire.errors import ErrorCode

from . import apache
from .quorum import APACHE, FENCEPOST, Node, Quorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(240)]

BROKER = 101
SMALL_SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "metadata.log.max.snapshot.interval.ms": "0",
}
STATIC_AND_DYNAMIC = pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])


def mixed(home: Path, **options: Any) -> Quorum:
    """Voter 1 is ours, 2 and 3 are Kafka's, and so is the broker; formatted, not started."""
    quorum = Quorum(home, (FENCEPOST, APACHE, APACHE), (APACHE,), **options)
    quorum.format()
    return quorum


def create(quorum: Quorum, topic: str, partitions: int = 5) -> None:
    """Through the broker, which asks whoever leads."""
    with Client(quorum.nodes[BROKER].address) as client:
        Admin(client).create_topic(topic, partitions)


def knows(quorum: Quorum, topic: str) -> bool:
    """Whether the active controller knows the topic: it refuses another of that name."""
    with pytest.raises(BrokerError) as refused:
        create(quorum, topic)
    return refused.value.code == ErrorCode.TOPIC_ALREADY_EXISTS


def topics(quorum: Quorum) -> set[str]:
    """As the broker's metadata has them."""
    with Client(quorum.nodes[BROKER].address) as client:
        return {topic.name for topic in Admin(client).list_topics()}


def wait_for_same_logs(*nodes: Node) -> None:
    """Return when their metadata logs are the same, byte for byte, as far as they all reach back.

    A node that began with a snapshot has none of the log before it.
    """

    def are_same() -> bool:
        shortest = min(len(node.metadata_log()) for node in nodes)
        return shortest > 0 and len({node.metadata_log()[-shortest:] for node in nodes}) == 1

    def are_whole() -> bool:
        first = {min(path.name for path in node.metadata_dir.glob("*.log")) for node in nodes}
        return len(first) > 1 or len({len(node.metadata_log()) for node in nodes}) == 1

    wait_until(lambda: are_same() and are_whole(), "all logs are the same", 20)


def is_caught_up(quorum: Quorum, node: Node) -> bool:
    """Whether the leader says that this node has everything."""
    leader = quorum.leader()
    said = leader.describe() if leader is not None else None
    if said is None:
        return False
    replicas = {r.replica_id: r.log_end_offset for r in [*said.current_voters, *said.observers]}
    return replicas.get(node.node_id) == replicas[said.leader_id] == said.high_watermark


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
        wait_until(lambda: is_caught_up(quorum, ours), "ours has everything")
        wait_for_same_logs(*quorum.voters)
        led = quorum.wait_for_leader()
        (heir,) = (node for node in theirs if node is not led)
        quorum.kill_leader(heir, lambda topic: create(quorum, topic))
        create(quorum, "with-our-vote")
        led.start()
        wait_until(lambda: is_caught_up(quorum, led), "it is back")
        wait_for_same_logs(*quorum.voters)


@STATIC_AND_DYNAMIC
def test_ours_leads(home: Path, is_dynamic: bool) -> None:
    with mixed(home, is_dynamic=is_dynamic) as quorum:
        ours = quorum.voters[0]
        quorum.start()
        led = quorum.wait_for_leader()
        create(quorum, "under-theirs")
        if led is not ours:
            quorum.kill_leader(ours, lambda topic: create(quorum, topic)).start()
        assert knows(quorum, "under-theirs")
        create(quorum, "under-ours")
        wait_until(lambda: "under-ours" in topics(quorum), "Kafka's broker knows the topic")
        wait_until(
            lambda: all(is_caught_up(quorum, n) for n in quorum.nodes.values()), "they have it"
        )
        wait_for_same_logs(*quorum.nodes.values())
        said = ours.describe()
        assert said is not None and said.leader_id == ours.node_id
        assert ours.stop() == 0
        quorum.wait_for_leader()
        assert knows(quorum, "under-ours"), "Kafka's controller has read what ours wrote"
        create(quorum, "under-theirs-again")
        ours.start()
        wait_until(lambda: is_caught_up(quorum, ours), "ours is back")
        wait_for_same_logs(*quorum.nodes.values())


def test_each_installs_the_others_snapshot(home: Path) -> None:
    with mixed(home, config=SMALL_SNAPSHOTS) as quorum:
        ours = quorum.voters[0]
        quorum.start(2, 3, BROKER)
        led = quorum.wait_for_leader()
        create(quorum, "a", 100)
        wait_until(lambda: led.snapshots(), "Kafka's controllers have taken a snapshot")
        ours.start()
        wait_until(lambda: is_caught_up(quorum, ours), "ours has everything")
        assert ours.snapshots()[0].name in {path.name for path in led.snapshots()}
        assert ours.log_start() == int(ours.snapshots()[0].name[:20])
        quorum.kill_leader(ours, lambda topic: create(quorum, topic))
        create(quorum, "b", 100)
        create(quorum, "c", 100)
        wait_until(lambda: len(ours.snapshots()) > 1, "ours has taken snapshots")
        shutil.rmtree(led.data_dir)
        led.format()
        led.start()
        wait_until(lambda: is_caught_up(quorum, led), "the one without a log has everything")
        assert led.snapshots()[0].name in {path.name for path in ours.snapshots()}
        assert led.log_start() == int(led.snapshots()[0].name[:20])
        wait_for_same_logs(*quorum.voters)
        quorum.kill_leader(led, lambda topic: create(quorum, topic))
        assert all(knows(quorum, topic) for topic in "abc")


def test_kafkas_tool_adds_ours_and_removes_it(home: Path) -> None:
    with Quorum(home, (APACHE, APACHE), (APACHE,), is_dynamic=True) as quorum:
        quorum.format()
        quorum.start()
        quorum.wait_for_leader()
        create(quorum, "a")
        ours = quorum.add_controller(FENCEPOST, 3)
        ours.start()
        wait_until(lambda: is_caught_up(quorum, ours), "ours observes")
        metadata_quorum(quorum, "add-controller", config=ours)
        assert voters(quorum) == {1, 2, 3}
        led = quorum.wait_for_leader()
        (other,) = (node for node in quorum.voters if node is not led)
        quorum.kill_leader(ours, lambda topic: create(quorum, topic))  # one that was added may lead
        led.start()
        assert knows(quorum, "a")
        wait_until(lambda: is_caught_up(quorum, led), "the old leader follows")
        remove_controller(quorum, led)
        assert voters(quorum) == {3, other.node_id}
        metadata_quorum(quorum, "add-controller", config=led)
        assert voters(quorum) == {1, 2, 3}, "ours takes Kafka's as a voter"
        remove_controller(quorum, ours)
        wait_until(lambda: quorum.leader() not in (None, ours), "ours has handed over")
        assert voters(quorum) == {1, 2}
        create(quorum, "b")
        wait_until(lambda: is_caught_up(quorum, ours), "ours observes again")
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
        wait_until(lambda: is_caught_up(quorum, ours), "ours has everything")
        ours.stop()
        create(quorum, "b")
        with as_kind(ours, APACHE):
            ours.start()
            wait_until(lambda: is_caught_up(quorum, ours), "Kafka goes on with our directory")
            wait_for_same_logs(*quorum.voters)
            ours.stop()
        create(quorum, "c")
        ours.start()
        wait_until(lambda: is_caught_up(quorum, ours), "ours goes on with Kafka's directory")
        wait_for_same_logs(*quorum.voters)


@pytest.mark.parametrize("heir", [FENCEPOST, APACHE])
def test_static_voters_become_dynamic(home: Path, heir: str) -> None:
    with mixed(home) as quorum:
        quorum.start()
        led = quorum.wait_for_leader()
        create(quorum, "a")
        wait_until(lambda: all(is_caught_up(quorum, n) for n in quorum.voters), "they have it")
        if led.kind != heir:
            chosen = next(node for node in quorum.voters if node.kind == heir)
            quorum.kill_leader(chosen, lambda topic: create(quorum, topic)).start()
            wait_until(lambda: all(is_caught_up(quorum, n) for n in quorum.voters), "they are back")
        where = ("--bootstrap-controller", quorum.bootstrap_controllers)

        def is_upgraded() -> bool:
            """It is refused until the leader has heard from everybody what they can."""
            upgrade = ("upgrade", "--feature", "kraft.version=1")
            said = apache.run_tool("features", *where, *upgrade, check=False)
            return said.stdout.strip() == "kraft.version was upgraded to 1."

        wait_until(is_upgraded, "kraft.version is 1", 30)
        leader = quorum.wait_for_leader().describe()
        assert leader is not None
        ids = {str(v.replica_directory_id) for v in leader.current_voters}
        assert ids == {node.stored_directory_id() for node in quorum.voters}
        create(quorum, "b")
        wait_until(lambda: all(is_caught_up(quorum, n) for n in quorum.voters), "all follow")
        wait_for_same_logs(*quorum.voters)
