"""Names of snapshot files: there and back, and what is none."""

import pytest

from fencepost.log.snapshots import (
    SnapshotFileKind,
    SnapshotId,
    checkpoint_file,
    deleted_file,
    parse_snapshot_file,
    partial_file,
)

LARGEST = SnapshotId((1 << 63) - 1, (1 << 31) - 1)


@pytest.mark.parametrize("snapshot_id", [SnapshotId(0, 0), SnapshotId(4711, 12), LARGEST])
def test_every_name_is_read_back(snapshot_id):
    for make, kind in (
        (checkpoint_file, SnapshotFileKind.WHOLE),
        (partial_file, SnapshotFileKind.PARTIAL),
        (deleted_file, SnapshotFileKind.DELETED),
    ):
        assert parse_snapshot_file(make(snapshot_id)) == (snapshot_id, kind)


def test_the_name_has_twenty_and_ten_digits():
    assert checkpoint_file(SnapshotId(4711, 12)) == "00000000000000004711-0000000012.checkpoint"


def test_a_partial_file_of_kafka_has_a_number_of_its_own():
    name = "00000000000000004711-0000000012-8219471982.checkpoint.part"
    assert parse_snapshot_file(name) == (SnapshotId(4711, 12), SnapshotFileKind.PARTIAL)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "00000000000000004711.checkpoint",
        "00000000000000004711-0000000012.checkpoint.swap",
        "00000000000000004711-0000000012.checkpoint.part.part",
        "00000000000000004711-0000000012-x.checkpoint.part",
        "00000000000000004711-0000000012.checkpoint\n",
        "00000000000000004711-12.checkpoint",
        "4711-0000000012.checkpoint",
        "99999999999999999999-0000000012.checkpoint",
        "00000000000000004711-9999999999.checkpoint",
        "00000000000000004711.log",
        "bootstrap.checkpoint",
    ],
)
def test_other_names_are_none(name):
    assert parse_snapshot_file(name) is None


def test_ids_are_ordered_by_offset_and_then_epoch():
    assert SnapshotId(3, 9) < SnapshotId(4, 1) < SnapshotId(4, 2)
