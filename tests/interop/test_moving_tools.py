"""Apache Kafka's tools move partitions and elect leaders on three of our brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.metadata import TopicPartition
from fencepost.testing import Cluster
from fencepost.testing.quorum_cluster import QuorumCluster

from ..waiting import eventually
from .apache import ToolFailedError, run_tool
from .maven import JarSet
from .test_java_tools import create, produce

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CONFIG = {
    "auto.leader.rebalance.enable": "false",
    "broker.heartbeat.interval.ms": 300,
    "broker.session.timeout.ms": 3_000,
    "group.initial.rebalance.delay.ms": 0,
}


@pytest.fixture(scope="module")
def cluster(kafka_jars: JarSet) -> Iterator[QuorumCluster]:
    """Three nodes, each broker and controller."""
    with QuorumCluster(3, 0, combined=True, config=CONFIG) as made:
        yield made


@pytest.fixture
def servers(cluster: QuorumCluster) -> str:
    cluster.start()
    return cluster.bootstrap_servers


def create_at(servers: str, topic: str, assignment: str) -> None:
    run_tool(
        "topics", "--bootstrap-server", servers, "--create", "--topic", topic,
        "--replica-assignment", assignment,
    )  # fmt: skip


def described(servers: str, topic: str) -> dict[str, str]:
    """The first partition, as `kafka-topics --describe` tells of it."""
    out = run_tool("topics", "--bootstrap-server", servers, "--describe", "--topic", topic).stdout
    line = next(line for line in out.splitlines() if "Partition: 0" in line)
    fields = [field.partition(": ") for field in line.strip().split("\t")]
    return {name.strip(): value.strip() for name, _, value in fields}


def reassign(servers: str, file: Path, topic: str, replicas: list[int], **more: Any) -> Any:
    """Write the plan; a function that runs the tool on it."""
    partition = {"topic": topic, "partition": 0, "replicas": replicas, **more}
    file.write_text(json.dumps({"version": 1, "partitions": [partition]}))

    def run(*arguments: str) -> str:
        return run_tool(
            "reassign-partitions", "--bootstrap-server", servers,
            "--reassignment-json-file", str(file), *arguments,
        ).stdout  # fmt: skip

    return run


def test_a_partition_is_moved_and_verified(servers: str, topic: str, tmp_path: Path) -> None:
    create_at(servers, topic, "1:2")
    produce(servers, topic, [f"m{i}" for i in range(200)])
    run = reassign(servers, tmp_path / "plan.json", topic, [3, 2])
    assert "Successfully started partition reassignment" in run("--execute")
    eventually(lambda: "is completed" in run("--verify"), "it has moved")
    found = described(servers, topic)
    assert (found["Replicas"], found["Leader"]) == ("3,2", "3")
    assert sorted(found["Isr"].split(",")) == ["2", "3"]
    assert found["Elr"] == ""
    listed = run_tool("reassign-partitions", "--bootstrap-server", servers, "--list").stdout
    assert "No partition reassignments found." in listed
    assert run_tool(
        "get-offsets", "--bootstrap-server", servers, "--topic", topic
    ).lines == [f"{topic}:0:200"]  # fmt: skip


def test_a_throttled_move_and_its_throttles_go(servers: str, topic: str, tmp_path: Path) -> None:
    create_at(servers, topic, "1:2")
    produce(servers, topic, ["x" * 1000] * 100)
    run = reassign(servers, tmp_path / "plan.json", topic, [2, 3])
    out = run("--execute", "--throttle", "100000000")
    assert "throttle" in out
    configs = ("configs", "--bootstrap-server", servers, "--describe", "--entity-type")
    eventually(lambda: "is completed" in run("--verify"), "it has moved")
    for entity in (("brokers", "--entity-name", "1"), ("topics", "--entity-name", topic)):
        assert "throttled" not in run_tool(*configs, *entity).stdout


def test_a_move_is_listed_and_cancelled(
    cluster: QuorumCluster, servers: str, topic: str, tmp_path: Path
) -> None:
    create_at(servers, topic, "1:2")
    run = reassign(servers, tmp_path / "plan.json", topic, [1, 3])
    cluster.nodes[3].kill()  # the tool does not move anything to a broker that metadata leave out
    try:
        with Client(servers) as client:
            outcomes = Admin(client).alter_reassignments({TopicPartition(topic, 0): [1, 3]})
        assert [one.error_code for one in outcomes.values()] == [0]
        listed = run_tool("reassign-partitions", "--bootstrap-server", servers, "--list").stdout
        assert f"{topic}-0: replicas: 1,3,2. adding: 3. removing: 2." in listed
        # Without it the tool would clear the throttles of broker 3, which is down.
        assert f"{topic}-0" in run("--cancel", "--preserve-throttles")
        eventually(lambda: described(servers, topic)["Replicas"] == "1,2", "it is called off")
    finally:
        cluster.start()


def test_a_preferred_leader_is_elected(cluster: QuorumCluster, servers: str, topic: str) -> None:
    create_at(servers, topic, "3:1")
    cluster.nodes[3].kill()
    eventually(lambda: described(servers, topic)["Leader"] == "1", "the other leads")
    cluster.start()
    eventually(lambda: "3" in described(servers, topic)["Isr"], "it is in sync again")
    elect = (
        "leader-election", "--bootstrap-server", servers, "--election-type", "preferred",
        "--topic", topic, "--partition", "0",
    )  # fmt: skip
    assert "Successfully completed leader election" in run_tool(*elect).stdout
    eventually(lambda: described(servers, topic)["Leader"] == "3", "a broker has heard of it")
    assert "Valid replica already elected" in run_tool(*elect).stdout


def test_an_unclean_leader_is_elected(cluster: QuorumCluster, servers: str, topic: str) -> None:
    create_at(servers, topic, "3:1")
    produce(servers, topic, ["a"])
    cluster.nodes[1].kill()
    eventually(lambda: described(servers, topic)["Isr"] == "3", "1 is out")
    cluster.nodes[3].kill()
    cluster.nodes[1].start()
    elect = (
        "leader-election", "--bootstrap-server", servers, "--election-type", "unclean",
        "--topic", topic, "--partition", "0",
    )  # fmt: skip

    def is_elected() -> bool:
        try:
            return "Successfully completed leader election" in run_tool(*elect).stdout
        except ToolFailedError:
            return False

    try:
        eventually(is_elected, "1 may lead")
        eventually(lambda: described(servers, topic)["Leader"] == "1", "a broker has heard of it")
    finally:
        cluster.start()


def test_a_replica_moves_to_another_directory(
    kafka_jars: JarSet, topic: str, tmp_path: Path
) -> None:
    paths = [tmp_path / name for name in ("a", "b")]
    with Cluster(faults=False, config={"log.dirs": ",".join(map(str, paths))}) as cluster:
        servers = cluster.bootstrap_servers
        create(servers, topic, partitions=1)
        produce(servers, topic, [f"m{i}" for i in range(50)])
        [here] = [path for path in paths if (path / f"{topic}-0").exists()]
        [there] = [path for path in paths if path != here]
        run = reassign(servers, tmp_path / "plan.json", topic, [1], log_dirs=[str(there)])
        assert "Successfully started moving log directory" in run("--execute")
        eventually(lambda: f"{topic}-0-1 completed successfully" in run("--verify"), "it has moved")
        out = run_tool("log-dirs", "--bootstrap-server", servers, "--describe").stdout
        document = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
        found = {
            one["logDir"]: [p["partition"] for p in one["partitions"] if p["size"]]
            for broker in document["brokers"]
            for one in broker["logDirs"]
        }
        assert f"{topic}-0" in found[str(there)] and f"{topic}-0" not in found[str(here)]
        assert run_tool(
            "get-offsets", "--bootstrap-server", servers, "--topic", topic
        ).lines == [f"{topic}:0:50"]  # fmt: skip
