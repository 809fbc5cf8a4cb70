"""I27 finds every way in which a snapshot may not say what the log says."""

from __future__ import annotations

import pytest

from fencepost.log.snapshots import BOOTSTRAP_ID, SnapshotHeader, SnapshotId
from fencepost.machines.image import ClusterImage, apply_records
from fencepost.sim.ablations import load_ablation
from fencepost.sim.checks.i27_snapshots import Snapshots
from fencepost.sim.oracle import Entry, Oracle, Violation
from fencepost.sim.run import Plan, run_seed
from fencepost.wire.records.metadata import FeatureLevelRecord

HEADER = SnapshotHeader(1000)
COMMITTED = (Entry(0, 1, 1, 11), Entry(1, 4, 1, 12), Entry(4, 6, 3, 13))


def image_at(offset: int, level: int = 7) -> ClusterImage:
    record = FeatureLevelRecord(name="metadata.version", feature_level=level)
    return apply_records(ClusterImage(), [record], offset, 1)


@pytest.fixture
def told():
    """A check that has seen images of two offsets, and the oracle."""
    oracle = Oracle()
    oracle.committed.extend(COMMITTED)
    check = Snapshots()
    check.image_moved(oracle, 1, image_at(3))
    check.image_moved(oracle, 1, image_at(5, 8))
    return check, oracle


def test_snapshots_that_are_right_pass(told):
    check, oracle = told
    check.snapshot_there(oracle, 1, SnapshotId(4, 1), HEADER, image_at(3))
    check.snapshot_there(oracle, 2, SnapshotId(4, 1), HEADER, image_at(3))
    check.snapshot_there(oracle, 2, SnapshotId(6, 3), HEADER, image_at(5, 8))
    check.snapshot_there(oracle, 3, BOOTSTRAP_ID, HEADER, ClusterImage())
    check.log_starts(oracle, 1, 0, None)
    check.log_starts(oracle, 1, 4, SnapshotId(4, 1))
    check.log_starts(oracle, 1, 3, SnapshotId(4, 1))


@pytest.mark.parametrize(
    ("snapshot_id", "image", "what"),
    [
        (SnapshotId(7, 3), image_at(6), "beyond"),
        (SnapshotId(3, 1), image_at(2), "within a batch"),
        (SnapshotId(6, 2), image_at(5, 8), "epoch 3"),
        (SnapshotId(4, 1), image_at(3, 9), "not the replay"),
    ],
)
def test_what_the_log_does_not_say_is_found(told, snapshot_id, image, what):
    check, oracle = told
    with pytest.raises(Violation, match=what):
        check.snapshot_there(oracle, 1, snapshot_id, HEADER, image)


def test_two_of_one_name_are_the_same(told):
    check, oracle = told
    check.snapshot_there(oracle, 1, SnapshotId(1, 1), HEADER, image_at(0))
    with pytest.raises(Violation, match="others have"):
        check.snapshot_there(oracle, 2, SnapshotId(1, 1), SnapshotHeader(1000, 1), image_at(0))


@pytest.mark.parametrize("latest", [None, SnapshotId(3, 1)])
def test_a_log_without_its_beginning_is_found(told, latest):
    check, oracle = told
    with pytest.raises(Violation, match="starts at 4"):
        check.log_starts(oracle, 1, 4, latest)


def test_the_old_bug_is_found_by_search():
    plan = Plan(rules=load_ablation("snapshots-end-one-early").rules)
    found = (run_seed(seed, plan).violation for seed in range(1, 10))
    assert any("I27" in str(violation) for violation in found)
