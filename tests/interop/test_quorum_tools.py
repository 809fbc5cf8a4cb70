"""Kafka's command-line tools against a quorum of three controllers, of either kind."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cli import main as fencepost_command

from ..waiting import eventually
from . import apache
from .apache import CLUSTER_ID
from .conftest import jars_or_skip
from .quorum import APACHE, FENCEPOST, Node, Quorum
from .quorum_mixed import BROKER, SMALL_SNAPSHOTS

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module", params=[APACHE, FENCEPOST])
def quorum(
    request: pytest.FixtureRequest, kafka_jars, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Quorum]:
    """Three voters that may change, and a broker, all of one kind; small snapshots."""
    kind = request.param
    home = tmp_path_factory.mktemp(kind)
    with Quorum(home, (kind,) * 3, (kind,), is_dynamic=True, config=SMALL_SNAPSHOTS) as quorum:
        quorum.format()
        quorum.start()
        quorum.wait_for_leader()
        create(quorum, "first", 50)
        yield quorum


def controllers(quorum: Quorum) -> tuple[str, str]:
    return "--bootstrap-controller", quorum.bootstrap_controllers


def servers(quorum: Quorum) -> tuple[str, str]:
    return "--bootstrap-server", quorum.nodes[BROKER].address


def create(quorum: Quorum, topic: str, partitions: int = 1) -> None:
    apache.run_tool(
        "topics", *servers(quorum), "--create", "--topic", topic,
        "--partitions", str(partitions), "--replication-factor", "1",
    )  # fmt: skip


def status(quorum: Quorum) -> dict[str, str]:
    """What describe --status says, by name."""
    said = apache.run_tool("metadata-quorum", *controllers(quorum), "describe", "--status")
    return {name: value.strip() for name, value in (line.split(":", 1) for line in said.lines)}


@pytest.mark.parametrize("ask", [controllers, servers])
def test_the_quorum_is_described(quorum: Quorum, ask) -> None:
    leader = quorum.wait_for_leader()
    said = apache.run_tool("metadata-quorum", *ask(quorum), "describe", "--status").stdout
    found = dict(re.findall(r"^(\w+): *(.*)$", said, re.MULTILINE))
    assert found["ClusterId"] == CLUSTER_ID
    assert found["LeaderId"] == str(leader.node_id)
    assert int(found["HighWatermark"]) > 50
    voters = json.loads(found["CurrentVoters"])
    assert [(v["id"], v["directoryId"], v["endpoints"]) for v in voters] == [
        (node.node_id, str(node.directory_id), [f"CONTROLLER://{node.address}"])
        for node in quorum.voters
    ]
    assert [o["id"] for o in json.loads(found["CurrentObservers"])] == [BROKER]


def test_replication_is_described(quorum: Quorum) -> None:
    leader = quorum.wait_for_leader()

    def rows() -> dict[str, list[str]]:
        said = apache.run_tool("metadata-quorum", *controllers(quorum), "describe", "--replication")
        return {row.split()[0]: row.split() for row in said.lines[1:]}

    eventually(lambda: {row[3] for row in rows().values()} == {"0"}, "no replica lags")
    kinds = {int(id_): row[-1] for id_, row in rows().items()}
    followers = {n.node_id: "Follower" for n in quorum.voters if n is not leader}
    assert kinds == {leader.node_id: "Leader", **followers, BROKER: "Observer"}


def test_topics_and_configs(quorum: Quorum) -> None:
    create(quorum, "second", 3)
    described = apache.run_tool("topics", *servers(quorum), "--describe", "--topic", "second")
    assert "PartitionCount: 3" in described.stdout
    entity = ("--entity-type", "topics", "--entity-name", "second")
    apache.run_tool(
        "configs", *servers(quorum), *entity, "--alter", "--add-config", "retention.ms=7777"
    )

    def shown() -> str:
        return apache.run_tool("configs", *servers(quorum), *entity, "--describe").stdout

    eventually(lambda: "retention.ms=7777" in shown(), "the broker knows")
    apache.run_tool("topics", *servers(quorum), "--delete", "--topic", "second")
    eventually(
        lambda: "second" not in apache.run_tool("topics", *servers(quorum), "--list").lines,
        "the topic is gone",
    )


def test_configs_by_the_controllers(quorum: Quorum) -> None:
    entity = ("--entity-type", "topics", "--entity-name", "first")
    change = ("--alter", "--add-config", "segment.bytes=2097152")
    apache.run_tool("configs", *controllers(quorum), *entity, *change)
    eventually(
        lambda: (
            "segment.bytes=2097152"
            in apache.run_tool("configs", *servers(quorum), *entity, "--describe").stdout
        ),
        "the broker knows",
    )


@pytest.mark.parametrize("ask", [controllers, servers])
def test_features_are_described(quorum: Quorum, ask) -> None:
    expected = {
        "eligible.leader.replicas.version": ("0", "1", "1"),
        "group.version": ("0", "1", "1"),
        "kraft.version": ("0", "1", "1"),
        "metadata.version": ("3.3-IV3", "4.4-IV2", "4.4-IV2"),
        "share.version": ("0", "2", "2"),
        "streams.version": ("0", "1", "1"),
        "transaction.version": ("0", "2", "2"),
    }

    def described() -> dict[str, tuple[str, ...]]:
        said = apache.run_tool("features", *ask(quorum), "describe").stdout
        found = re.findall(
            r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+"
            r"FinalizedVersionLevel: (\S+)",
            said,
        )
        return {name: tuple(levels) for name, *levels in found}

    # Kafka's broker, on a busy machine, once told of kraft.version 0 in a cluster that has 1.
    eventually(lambda: described() == expected, f"{expected} is described")


def test_the_cluster_is_named_and_its_nodes_are_listed(quorum: Quorum) -> None:
    said = apache.run_tool("cluster", "cluster-id", *controllers(quorum)).stdout
    assert said.strip() == f"Cluster ID: {CLUSTER_ID}"
    listed = apache.run_tool("cluster", "list-endpoints", *controllers(quorum)).lines[1:]
    ports = {int(row.split()[0]): int(row.split()[2]) for row in listed}
    assert ports == {node.node_id: node.port for node in quorum.voters}


def test_controllers_are_added_and_removed(quorum: Quorum) -> None:
    new = quorum.nodes.get(4) or quorum.add_controller(quorum.voters[0].kind, 4)
    new.start()

    def is_caught_up() -> bool:
        said = quorum.wait_for_leader().describe()
        assert said is not None
        return any(o.replica_id == 4 and o.log_end_offset > 50 for o in said.observers)

    eventually(is_caught_up, "the new controller follows")
    where = controllers(quorum)
    command_config = ("--command-config", str(new.config_path))
    out = apache.run_tool("metadata-quorum", *command_config, *where, "add-controller").stdout
    assert out.startswith(f"Added controller 4 with directory id {new.stored_directory_id()}")
    with pytest.raises(apache.ToolFailedError, match="DuplicateVoter"):
        apache.run_tool("metadata-quorum", *command_config, *where, "add-controller")
    assert [v["id"] for v in json.loads(status(quorum)["CurrentVoters"])] == [1, 2, 3, 4]
    remove = ("remove-controller", "--controller-id", "4", "--controller-directory-id")
    wrong = str(quorum.voters[0].directory_id)
    with pytest.raises(apache.ToolFailedError, match="VoterNotFound"):
        apache.run_tool("metadata-quorum", *where, *remove, wrong)
    apache.run_tool("metadata-quorum", *where, *remove, new.stored_directory_id())
    assert [v["id"] for v in json.loads(status(quorum)["CurrentVoters"])] == [1, 2, 3]
    new.stop()


# Files of either kind, read by tools of either kind


@pytest.fixture
def files(quorum: Quorum) -> Node:
    """The leader, once it has a snapshot."""
    leader = quorum.wait_for_leader()
    eventually(leader.snapshots, "there is a snapshot")
    return leader


@pytest.mark.parametrize("more", [(), ("--skip-record-metadata",)], ids=["", "skip"])
def test_kafka_dumps_the_metadata_log(files: Node, more: tuple[str, ...]) -> None:
    log = next(files.metadata_dir.glob("*.log"))
    decoder = ("--cluster-metadata-decoder", *more)
    said = apache.run_tool("dump-log", *decoder, "--files", str(log)).stdout
    for record in ("REGISTER_BROKER_RECORD", "TOPIC_RECORD", "FEATURE_LEVEL_RECORD"):
        assert f'"type":"{record}"' in said
    assert said.count('"type":"PARTITION_RECORD"') >= 50
    if not more:
        assert "LeaderChange" in said and "KRaftVersion" in said and "KRaftVoters" in said


def test_kafka_dumps_a_snapshot(files: Node) -> None:
    decoder = "--cluster-metadata-decoder"
    said = apache.run_tool("dump-log", decoder, "--files", str(files.snapshots()[-1])).stdout
    assert said.count('"type":"PARTITION_RECORD"') >= 50
    assert "SnapshotHeader" in said and "SnapshotFooter" in said


def test_ours_dumps_the_log_and_a_snapshot(files: Node, capsys) -> None:
    for path in (next(files.metadata_dir.glob("*.log")), files.snapshots()[-1]):
        assert fencepost_command.main(["log", "dump", "--records", str(path)]) == 0
        said = capsys.readouterr().out
        assert said.count("PartitionRecord") >= 50, said[:2000]


def test_ours_finds_nothing_wrong(quorum: Quorum, capsys) -> None:
    node = next(n for n in quorum.voters if n is not quorum.wait_for_leader())
    node.stop()
    try:
        assert fencepost_command.main(["log", "verify", str(node.data_dir)]) == 0
    finally:
        node.start()


# Features of a cluster that was formatted for an older release


@pytest.fixture(scope="module", params=[APACHE, FENCEPOST])
def older(
    request: pytest.FixtureRequest, kafka_jars, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Quorum]:
    """One voter and a broker of release 4.0, voters static; small snapshots."""
    kind = request.param
    home = tmp_path_factory.mktemp(f"older-{kind}")
    with Quorum(home, (kind,), (kind,), config=SMALL_SNAPSHOTS) as quorum:
        quorum.format("--release-version", "4.0")
        quorum.start()
        quorum.wait_for_leader()
        create(quorum, "first", 50)
        yield quorum


def test_kafkas_shell_reads_a_snapshot(older: Quorum, tmp_path: Path) -> None:
    """That of an older Kafka, which knows the levels of its own time."""
    jars_or_skip(apache.SHELL)
    leader = older.wait_for_leader()
    eventually(leader.snapshots, "there is a snapshot")
    copy = Path(shutil.copy(leader.snapshots()[-1], tmp_path))  # it wants the directory for itself

    def shows(path: str, *words: str) -> bool:
        """It may answer before it has read everything, so it is asked again."""
        said = apache.run_shell(copy, "tree", path).stdout
        return all(word in said for word in words)

    eventually(lambda: shows("/image/topics/byName/first", "leader=101", "isr=[101]"), "topics")
    eventually(lambda: shows("/image/features", "4.0-IV3"), "features")


def feature_levels(quorum: Quorum) -> dict[str, str]:
    said = apache.run_tool("features", *controllers(quorum), "describe").stdout
    return dict(re.findall(r"Feature: (\S+) .*FinalizedVersionLevel: (\S+)", said))


def test_features_are_upgraded(older: Quorum) -> None:
    assert feature_levels(older)["metadata.version"] == "4.0-IV3"
    upgrade = ("upgrade", "--feature", "metadata.version=27")
    apache.run_tool("features", *servers(older), *upgrade, "--dry-run")
    assert feature_levels(older)["metadata.version"] == "4.0-IV3"
    apache.run_tool("features", *servers(older), *upgrade)
    assert feature_levels(older)["metadata.version"] == "4.1-IV1"
    apache.run_tool("features", *controllers(older), "upgrade", "--feature", "kraft.version=1")
    assert feature_levels(older)["kraft.version"] == "1"


@pytest.mark.parametrize(
    "change",
    [
        ("upgrade", "--feature", "kraft.version=2"),
        ("upgrade", "--feature", "metadata.version=999"),
        ("upgrade", "--feature", "no.such.feature=1"),
        ("downgrade", "--feature", "kraft.version=0"),
        ("downgrade", "--feature", "metadata.version=21"),
    ],
    ids=" ".join,
)
def test_features_that_cannot_be(older: Quorum, change: tuple[str, ...]) -> None:
    if feature_levels(older)["kraft.version"] == "0":
        apache.run_tool("features", *servers(older), "upgrade", "--feature", "kraft.version=1")
    before = feature_levels(older)
    with pytest.raises(apache.ToolFailedError, match="Could not"):
        apache.run_tool("features", *controllers(older), *change)
    assert feature_levels(older) == before
