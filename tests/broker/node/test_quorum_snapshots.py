"""Three controllers as processes: one that was away too long gets a snapshot for its log."""

from __future__ import annotations

import os

import pytest

from fencepost.cli.main import main
from fencepost.log.snapshots import SnapshotFileKind, SnapshotId, parse_snapshot_file
from fencepost.testing.quorum_cluster import QuorumCluster
from fencepost.wire.api import describe_quorum as describe

from ...waiting import eventually

pytestmark = pytest.mark.slow

OFTEN = {
    "metadata.log.max.record.bytes.between.snapshots": 2000,
    "metadata.max.retention.bytes": 6000,
    "metadata.max.idle.interval.ms": 20,
}


def log_directory(cluster: QuorumCluster, node_id: int) -> str:
    return f"{cluster.directory}/controller-{node_id}/data/__cluster_metadata-0"


def snapshots(cluster: QuorumCluster, node_id: int) -> list[SnapshotId]:
    """The whole snapshots that are there now."""
    parsed = [parse_snapshot_file(name) for name in os.listdir(log_directory(cluster, node_id))]
    return sorted(one[0] for one in parsed if one and one[1] is SnapshotFileKind.WHOLE)


def described(cluster: QuorumCluster) -> describe.PartitionDataResponse:
    """What the leader says of the quorum, whoever leads now."""
    return eventually(lambda: cluster.describe(cluster.leader_id()), "the leader answers")


def test_a_follower_that_was_away_goes_on_from_a_snapshot(capsys):
    with QuorumCluster(controllers=3, brokers=0, controller_config=OFTEN) as cluster:
        leader = cluster.leader_id()
        away = next(id_ for id_ in cluster.controllers if id_ != leader)
        cluster.controllers[away].kill()
        begun = described(cluster).high_watermark
        eventually(
            lambda: snapshots(cluster, leader)[:1] > [SnapshotId(begun + 50, 0)],
            "the leader drops what the other one has not seen",
        )
        cluster.controllers[away].start()
        cluster.controllers[away].wait_until_ready()

        target = described(cluster).high_watermark

        def has_caught_up() -> bool:
            voters = described(cluster).current_voters
            return any(one.replica_id == away and one.log_end_offset >= target for one in voters)

        eventually(has_caught_up, "it catches up")
        assert snapshots(cluster, away)[0].end_offset > begun + 50
        leader = cluster.leader_id()
        cluster.controllers[leader].kill()
        cluster.leader_id(but=leader)
        cluster.stop()
        for node_id in cluster.controllers:
            code = main(["log", "verify", os.path.dirname(log_directory(cluster, node_id))])
            assert code == 0, capsys.readouterr().out
