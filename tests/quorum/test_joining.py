"""Nodes that come late: what they need is in a snapshot, and controllers may join by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.log.snapshots import BOOTSTRAP_ID, parse_snapshot_file
from fencepost.testing.node_process import NodeProcess
from fencepost.testing.quorum_cluster import QuorumCluster

from .conftest import QUICK, topic_names, wait_for_topics

pytestmark = pytest.mark.slow

SNAPSHOTS = {
    **QUICK,
    "metadata.log.max.record.bytes.between.snapshots": 2_000,
    "metadata.max.retention.bytes": 1,
}
"""A snapshot every few topics, and nothing kept that one stands for."""

TOPICS = [f"topic-{number}" for number in range(60)]


def snapshots_of(node: NodeProcess) -> list[Path]:
    """The snapshots of a node, but for the bootstrap one."""
    directory = node.directory / "data" / "__cluster_metadata-0"
    found = []
    for path in sorted(directory.glob("*.checkpoint")):
        parsed = parse_snapshot_file(path.name)
        if parsed is not None and parsed[0] != BOOTSTRAP_ID:
            found.append(path)
    return found


def test_a_controller_joins_by_itself_out_of_a_snapshot():
    config = {**SNAPSHOTS, "controller.quorum.auto.join.enable": True}
    with QuorumCluster(3, 1, config=config) as cluster:
        with Cluster(cluster.bootstrap_servers) as client:
            admin = Admin(client)
            for name in TOPICS:
                admin.create_topic(name, 1, 1)
        leader = cluster.leader()
        cluster.wait_until(lambda: bool(snapshots_of(leader)), "no snapshot is taken")
        id_ = cluster.add_controller()
        joined = cluster.controllers[id_]
        joined.start()
        joined.wait_until_ready()

        def votes() -> bool:
            said = cluster.describe(cluster.leader_id())
            return said is not None and id_ in {one.replica_id for one in said.current_voters}

        cluster.wait_until(votes, "the controller does not become a voter")
        assert snapshots_of(joined), "it began with the leader's snapshot"

        # It counts: with it, three of four are there when another one is gone.
        first = next(node for node in cluster.controllers.values() if node is not joined)
        first.kill()
        with Cluster(cluster.bootstrap_servers) as client:
            Admin(client).create_topic("behind", 1, 1)
        wait_for_topics(cluster, [*TOPICS, "behind"])


def test_brokers_restart_out_of_snapshots():
    with QuorumCluster(1, 1, config=SNAPSHOTS) as cluster:
        with Cluster(cluster.bootstrap_servers) as client:
            admin = Admin(client)
            for name in TOPICS:
                admin.create_topic(name, 1, 1)
        (broker,) = cluster.brokers.values()
        cluster.wait_until(lambda: bool(snapshots_of(broker)), "no snapshot is taken")
        broker.kill()
        broker.start()
        broker.wait_until_ready()
        assert topic_names(cluster) == set(TOPICS)
        (controller,) = cluster.controllers.values()
        for end in (controller.kill, controller.stop):
            end()
            controller.start()
            controller.wait_until_ready()
            with Cluster(cluster.bootstrap_servers) as client:
                Admin(client).create_topic(f"after-{end.__name__}", 1, 1)
        wait_for_topics(cluster, [*TOPICS, "after-kill", "after-stop"])
