"""Brokers' files and controllers' that say other things of new topics: what is logged and shown."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from fencepost.cli.cluster.actions import Nodes
from fencepost.cli.main import main
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.log.properties import decode_properties, encode_properties
from fencepost.testing.quorum_cluster import QuorumCluster

from ..waiting import eventually
from .conftest import QUICK

CONTROLLER, BROKER = 1, 2
OF_BROKER = {
    "num.partitions": "6",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}


@pytest.fixture
def stopped() -> Iterator[QuorumCluster]:
    """A controller whose file says nothing of topics, and a broker whose file does."""
    made = QuorumCluster(1, 1, config=QUICK)
    path = made.brokers[BROKER].config_path
    path.write_bytes(encode_properties(decode_properties("", path.read_bytes()) | OF_BROKER))
    with contextlib.closing(made):
        yield made


@pytest.fixture
def cluster(stopped: QuorumCluster) -> QuorumCluster:
    """The same, running."""
    stopped.start()
    return stopped


def test_cluster_status_says_where_the_files_differ(stopped: QuorumCluster) -> None:
    notes = Nodes(stopped).answer({"action": "status"})["notes"]
    assert notes[0] == (
        "num.partitions differs: 1 at controller-1; 6 at broker-2; CreateTopics without a number"
        " takes the active controller's"
    )
    assert [note.partition(" ")[0] for note in notes] == list(OF_BROKER)
    path = stopped.brokers[BROKER].config_path
    entries = decode_properties("", path.read_bytes())
    path.write_bytes(encode_properties(entries | dict.fromkeys(OF_BROKER, "1")))
    assert Nodes(stopped).answer({"action": "status"})["notes"] == []


def warnings_of(cluster: QuorumCluster, node_id: int) -> str:
    lines = cluster.nodes[node_id].log_text.splitlines()
    return "\n".join(line for line in lines if "WARN" in line)


def test_both_logs_and_configs_describe_say_whose_file_counts(
    cluster: QuorumCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(cluster.bootstrap_servers) as client:
        Admin(client).create_topic("t", -1, -1)
        assert len(Admin(client).describe_topic("t").partitions) == 1, "the controller's counts"
    theirs = "num.partitions=6, default.replication.factor=3"
    taken = "CreateTopics without a number takes num.partitions=1, default.replication.factor=1"
    eventually(lambda: f"{theirs} of this broker counts only" in warnings_of(cluster, BROKER))
    eventually(lambda: f"{theirs} of broker 2 counts only" in warnings_of(cluster, CONTROLLER))
    said = warnings_of(cluster, BROKER)
    assert f"{taken} of the active controller, node 1" in said
    assert f"{taken} of this controller" in warnings_of(cluster, CONTROLLER)
    overridden = "ignoring min.insync.replicas=2 of this node's file: the cluster-wide value is"
    assert f"{overridden} min.insync.replicas=1" in said
    assert "min.insync.replicas" not in warnings_of(cluster, CONTROLLER)
    capsys.readouterr()
    asked = ["configs", "describe", "--broker", str(BROKER), "-b", cluster.bootstrap_servers]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert "num.partitions: CreateTopics without a number takes 1, of node 1" in shown
    assert "default.replication.factor: CreateTopics without a number takes 1, of node 1" in shown
    assert "min.insync.replicas: 2 of the file is not used, all brokers share 1" in shown
