"""Three controllers as processes: one that was away too long gets a snapshot for its log."""

from __future__ import annotations

import os
import time

import pytest

from fencepost.cli.main import main
from fencepost.log.snapshots import SnapshotFileKind, SnapshotId, parse_snapshot_file
from fencepost.testing.quorum_cluster import QuorumCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

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


def wait_until(is_so, what: str) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.05)


def test_a_follower_that_was_away_goes_on_from_a_snapshot(capsys):
    with QuorumCluster(controllers=3, brokers=0, controller_config=OFTEN) as cluster:
        leader = cluster.leader_id()
        away = next(id_ for id_ in cluster.controllers if id_ != leader)
        cluster.controllers[away].kill()
        begun = cluster.describe(leader).high_watermark
        wait_until(
            lambda: snapshots(cluster, leader)[:1] > [SnapshotId(begun + 50, 0)],
            "the leader drops what the other one has not seen",
        )
        cluster.controllers[away].start()
        cluster.controllers[away].wait_until_ready()

        def has_caught_up() -> bool:
            described = cluster.describe(leader)
            ends = {one.replica_id: one.log_end_offset for one in described.current_voters}
            return ends[away] >= described.high_watermark - 5 > begun

        wait_until(has_caught_up, "it catches up")
        assert snapshots(cluster, away)[0].end_offset > begun + 50
        cluster.controllers[leader].kill()
        wait_until(lambda: cluster.leader_id(but=leader), "the two that are left elect a leader")
        cluster.stop()
        for node_id in cluster.controllers:
            code = main(["log", "verify", os.path.dirname(log_directory(cluster, node_id))])
            assert code == 0, capsys.readouterr().out
