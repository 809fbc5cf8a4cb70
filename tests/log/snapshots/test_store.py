"""The snapshots of a log: what is kept open for readers, and what a disk that refuses leaves."""

from __future__ import annotations

import errno

import pytest

from fencepost.log.snapshots import DamagedSnapshotError, SnapshotId, SnapshotStore
from fencepost.log.snapshots.store import SERVED_AT_ONCE
from fencepost.sim.disk import SimDisk

from ..helpers import NOW_MS
from .samples import PATH, STATIC, values_of, write


def reads(disk: SimDisk) -> int:
    """How often anything was read."""
    return sum(operation == "read" for operation, _ in disk.operations)


@pytest.fixture
def disk() -> SimDisk:
    made = SimDisk()
    made.mkdir(PATH)
    return made


def test_a_snapshot_that_cannot_be_begun_leaves_nothing(disk):
    """Otherwise each attempt on a full disk would keep a file open, and what room there is."""
    store = SnapshotStore(disk, PATH)
    full = OSError(errno.ENOSPC, "No space left on device")
    disk.fault = lambda operation, path, count: full if operation == "write" else None
    with pytest.raises(OSError, match="No space left"):
        store.begin(SnapshotId(9, 1), STATIC, NOW_MS)
    assert disk.list(PATH) == [] and disk.open_files == 0


def test_followers_that_read_different_snapshots_do_not_have_them_looked_through_again(disk):
    store = SnapshotStore(disk, PATH)
    ids = [SnapshotId(offset, 1) for offset in range(10, 10 + SERVED_AT_ONCE)]
    for snapshot_id in ids:
        write(store, snapshot_id, values_of(400))
    pieces = dict.fromkeys(ids, b"")
    size = min(store.size_bytes(snapshot_id) for snapshot_id in ids)
    for snapshot_id in ids:  # all of them have begun
        pieces[snapshot_id] += store.read(snapshot_id, 0, 100)
    before = reads(disk)
    for position in range(100, size, 100):
        for snapshot_id in ids:
            pieces[snapshot_id] += store.read(snapshot_id, position, 100)
    assert reads(disk) - before == len(ids) * len(range(100, size, 100)), "one read for each piece"
    for snapshot_id in ids:
        assert pieces[snapshot_id][:size] == disk.read(store.path(snapshot_id))[:size]


def test_no_more_are_kept_open_than_there_may_be(disk):
    store = SnapshotStore(disk, PATH)
    ids = [SnapshotId(offset, 1) for offset in range(10, 12 + SERVED_AT_ONCE)]
    for snapshot_id in ids:
        write(store, snapshot_id, values_of(3))
        store.read(snapshot_id, 0, 100)
        assert len(store._served) <= SERVED_AT_ONCE
    assert store.read(ids[0], 50, 10) == disk.read(store.path(ids[0]))[50:60]
    store.drop_before(11 + SERVED_AT_ONCE)
    assert set(store._served) <= set(store.ids())
    store.close()
    assert not store._served


def test_corruption_is_found_whenever_reading_begins_again(disk):
    store = SnapshotStore(disk, PATH)
    snapshot_id = SnapshotId(10, 1)
    write(store, snapshot_id, values_of(40))
    assert store.read(snapshot_id, 0, 10)
    disk.flip_bit(store.path(snapshot_id), 3000)
    with pytest.raises(DamagedSnapshotError):
        store.read(snapshot_id, 0, 10)
    assert store.is_corrupt(snapshot_id) and not store._served
    write(store, snapshot_id, values_of(40))
    assert store.read(snapshot_id, 0, 10) and not store.is_corrupt(snapshot_id)
