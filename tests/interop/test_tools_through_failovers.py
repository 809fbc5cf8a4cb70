"""Apache Kafka's tools while one of three brokers dies, and its verification of replicas after."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.batch.crc import crc32c
from fencepost.testing.quorum_cluster import QuorumCluster

from ..waiting import DEADLINE_S, eventually
from .apache import QUICK_JVM, TOOLS, ClassArchive, consume, java_command
from .maven import JarSet
from .test_java_tools import produce
from .test_moving_tools import CONFIG, create_at, described, reassign

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def cluster(kafka_jars: JarSet) -> Iterator[QuorumCluster]:
    """Three nodes, each broker and controller."""
    with QuorumCluster(3, 0, combined=True, config=CONFIG) as made:
        yield made


@pytest.fixture
def servers(cluster: QuorumCluster) -> str:
    return cluster.bootstrap_servers


def begin(tool: str, *arguments: str) -> subprocess.Popen[str]:
    """A tool that is on its way while the test goes on."""
    jvm = (*QUICK_JVM, *ClassArchive(TOOLS[tool]).options(is_written=False))
    return subprocess.Popen(
        java_command(TOOLS[tool], *arguments, jvm=jvm),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> str:
    """What it said; it must have ended well."""
    out, _ = process.communicate(timeout=4 * DEADLINE_S)
    assert process.returncode == 0, out
    return out


def test_topics_are_made_and_grow_while_brokers_die(
    cluster: QuorumCluster, servers: str, topic: str
) -> None:
    for id_, words in (
        (1, ("--create", "--partitions", "3", "--replication-factor", "2")),
        (2, ("--alter", "--partitions", "6")),
        (3, ("--describe",)),
    ):
        tool = begin("topics", "--bootstrap-server", servers, "--topic", topic, *words)
        cluster.nodes[id_].kill()
        out = end(tool)
        cluster.start()
    assert "PartitionCount: 6" in out


def test_a_partition_moves_and_leaders_are_elected_while_a_broker_dies(
    cluster: QuorumCluster, servers: str, topic: str, tmp_path: Path
) -> None:
    create_at(servers, topic, "1:2")
    values = [f"m{i}" for i in range(200)]
    produce(servers, topic, values)
    run = reassign(servers, tmp_path / "plan.json", topic, [2, 3])
    run("--execute", "--throttle", "10000000")
    cluster.nodes[1].kill()  # it leads, and may be the controller
    eventually(lambda: "is completed" in run("--verify", "--preserve-throttles"), "it has moved")
    found = described(servers, topic)
    assert (found["Replicas"], found["Leader"]) == ("2,3", "2")
    cluster.start()
    run("--verify")

    cluster.nodes[2].kill()
    eventually(lambda: described(servers, topic)["Leader"] == "3", "the other leads")
    cluster.start()
    eventually(lambda: "2" in described(servers, topic)["Isr"], "it is in sync again")
    elect = begin(
        "leader-election", "--bootstrap-server", servers, "--election-type", "preferred",
        "--topic", topic, "--partition", "0",
    )  # fmt: skip
    cluster.nodes[1].kill()
    assert "Successfully completed leader election" in end(elect)
    cluster.start()
    eventually(lambda: described(servers, topic)["Leader"] == "2", "a broker has heard of it")
    assert consume(servers, topic, 200, "--from-beginning") == values


@contextlib.contextmanager
def verification(servers: str, topic: str) -> Iterator[subprocess.Popen[str]]:
    """It compares what replicas answer to fetches, and reports again and again."""
    tool = begin(
        "replica-verification", "--broker-list", servers, "--topics-include", topic,
        "--report-interval-ms", "1000", "--time", "-2",
    )  # fmt: skip
    try:
        yield tool
    finally:
        tool.kill()
        tool.communicate()


def line_with(process: subprocess.Popen[str], *words: str) -> str:
    """The next line of its output with one of these words."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if any(word in line for word in words):
            return line
    raise AssertionError("".join(said))


def spoil_last_batch(path: Path) -> None:
    """Change the last record's value and make the CRC right again: a replica that is different."""
    data = bytearray(path.read_bytes())
    at = last = 0
    while at < len(data):
        last, at = at, at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    data[-2] ^= 1
    data[last + 17 : last + 21] = crc32c(memoryview(data)[last + 21 :]).to_bytes(4, "big")
    path.write_bytes(data)


def test_replicas_are_verified_after_failovers_and_a_different_one_is_found(
    cluster: QuorumCluster, servers: str, topic: str
) -> None:
    create_at(servers, topic, "1:2:3")
    for id_ in cluster.nodes:
        cluster.nodes[id_].kill()
        produce(servers, topic, [f"without {id_}"] * 20, "--request-required-acks", "all")
        cluster.start()
    eventually(lambda: len(described(servers, topic)["Isr"]) == len("1,2,3"), "all in sync")
    with verification(servers, topic) as tool:
        assert f"max lag is 0 for partition {topic}-0 at offset" in line_with(tool, "max lag is 0")
    cluster.nodes[3].stop()
    directory = cluster.nodes[3].directory / "data" / f"{topic}-0"
    spoil_last_batch(max(directory.glob("*.log")))
    cluster.start()
    with verification(servers, topic) as tool:
        assert f"{topic}-0" in line_with(tool, "unmatched checksum")
    log = json.dumps([node.log_tail for node in cluster.nodes.values()])
    assert "Traceback" not in log
