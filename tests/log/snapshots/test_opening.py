"""A log and its snapshots at a start: what is kept, what goes, and what ends the start."""

import pytest

from fencepost.log.errors import LogError
from fencepost.log.snapshots import (
    BOOTSTRAP_ID,
    DamagedSnapshotError,
    SnapshotId,
    SnapshotStore,
    TruncatedSnapshotError,
)
from fencepost.log.snapshots.opening import SnapshotMissingError, open_snapshots
from fencepost.sim.disk import SimDisk

from ..helpers import append, make_batch, open_log
from .samples import DYNAMIC, PATH, opened, read_values, values_of, write


@pytest.fixture
def disk():
    made = SimDisk()
    made.mkdir(PATH)
    return made


def log_of(disk, *epochs, start_offset=0):
    """A log with one record in each of these epochs."""
    log = open_log(disk, PATH)
    if start_offset:
        log.truncate_fully_and_start_at(start_offset)
    for epoch in epochs:
        append(log, make_batch(), epoch)
    log.flush()
    return log


def names(disk):
    return [name for name in disk.list(PATH) if ".checkpoint" in name]


def put(disk, name, data=b"x"):
    disk.write_atomic(f"{PATH}/{name}", data)


def test_what_was_never_finished_goes(disk):
    log = log_of(disk, 1, 1)
    put(disk, "00000000000000000002-0000000001.checkpoint.part")
    put(disk, "00000000000000000002-0000000001-18236127.checkpoint.part")
    put(disk, "00000000000000000001-0000000001.checkpoint.deleted")
    store = open_snapshots(log)
    assert names(disk) == [] and store.ids() == ()
    assert (store.latest(), store.earliest()) == (None, None)


def test_what_is_there_is_known(disk):
    log = log_of(disk, 1, 1, 2)
    first = SnapshotStore(disk, PATH)
    write(first, SnapshotId(1, 1), values_of(1))
    write(first, SnapshotId(3, 2), values_of(3), DYNAMIC)
    store = open_snapshots(log)
    assert store.ids() == (SnapshotId(1, 1), SnapshotId(3, 2))
    assert (store.earliest(), store.latest()) == store.ids()
    assert store.size_bytes(SnapshotId(3, 2)) == disk.size(store.path(SnapshotId(3, 2)))
    assert store.timestamp_ms(SnapshotId(3, 2)) == DYNAMIC.last_contained_log_timestamp_ms
    assert store.header(SnapshotId(3, 2)) == DYNAMIC
    missing = SnapshotId(2, 1)
    assert store.size_bytes(missing) is store.timestamp_ms(missing) is store.header(missing) is None
    assert store.read(missing, 0, 10) is None


def test_a_snapshot_is_read_in_pieces(disk):
    log_of(disk, 1)
    store = SnapshotStore(disk, PATH)
    write(store, SnapshotId(1, 1), values_of(50))
    whole = disk.read(store.path(SnapshotId(1, 1)))
    read = b""
    while piece := store.read(SnapshotId(1, 1), len(read), 100):
        read += piece
    assert read == whole
    write(store, SnapshotId(2, 1), [])
    assert store.drop_before(2) == [SnapshotId(1, 1)]
    assert store.read(SnapshotId(1, 1), 0, 10) is None, "it may go while it is being fetched"
    store.close()
    assert disk.open_files == 1, "the log's"


def test_a_log_that_ends_before_the_snapshot_starts_over(disk):
    log_of(disk, 1, 1).close()
    write(SnapshotStore(disk, PATH), SnapshotId(9, 4), [])
    log, store = opened(disk)
    assert (log.start_offset, log.end_offset, store.latest()) == (9, 9, SnapshotId(9, 4))
    append(log, make_batch(), 4)
    log.flush()
    log.close()
    again, _ = opened(disk, start_offset=9)
    assert (again.start_offset, again.end_offset) == (9, 10), "once is enough"


@pytest.mark.parametrize(("epochs", "is_in"), [((1, 3, 3), True), ((1, 2, 5), False)])
def test_a_log_of_the_same_length_and_another_epoch_starts_over(disk, epochs, is_in):
    """What a snapshot holds is committed; whatever else stands there is not."""
    log_of(disk, *epochs).close()
    write(SnapshotStore(disk, PATH), SnapshotId(2, 3), [])
    log, _ = opened(disk)
    assert (log.start_offset, log.end_offset) == ((0, 3) if is_in else (2, 2))


def test_a_log_that_starts_behind_0_needs_a_snapshot(disk):
    log_of(disk, 1, 1, start_offset=5).close()
    with pytest.raises(SnapshotMissingError, match="starts at 5"):
        opened(disk, start_offset=5)
    write(SnapshotStore(disk, PATH), SnapshotId(4, 1), [])
    with pytest.raises(SnapshotMissingError, match="ends at 4"):
        opened(disk, start_offset=5)
    write(SnapshotStore(disk, PATH), SnapshotId(5, 1), [])
    log, store = opened(disk, start_offset=5)
    assert store.ids() == (SnapshotId(5, 1),), "the older one is of no use"
    assert (log.start_offset, log.end_offset) == (5, 7)


def test_a_damaged_newest_snapshot_is_replaced_by_an_older_one(disk):
    log_of(disk, 1, 1, 1, start_offset=5).close()
    store = SnapshotStore(disk, PATH)
    write(store, SnapshotId(5, 1), values_of(5))
    write(store, SnapshotId(7, 1), values_of(7))
    disk.flip_bit(store.path(SnapshotId(7, 1)), 8 * 150)
    _, store = opened(disk, start_offset=5)
    assert store.ids() == (SnapshotId(5, 1),)
    assert read_values(disk, store.path(SnapshotId(5, 1))) == values_of(5)
    assert names(disk)[-1].endswith(".aside"), "an operator may look at it"


def test_a_damaged_snapshot_that_is_needed_ends_the_start(disk):
    log_of(disk, 1, start_offset=5).close()
    store = SnapshotStore(disk, PATH)
    write(store, SnapshotId(5, 1), values_of(5))
    disk.flip_bit(store.path(SnapshotId(5, 1)), 8 * 150)
    with pytest.raises(DamagedSnapshotError):
        opened(disk, start_offset=5)
    assert names(disk) == [f"{SnapshotId(5, 1)}.checkpoint"], "and stays where it is"


def test_a_damaged_bootstrap_snapshot_is_missed_only_at_the_first_start(disk):
    put(disk, f"{BOOTSTRAP_ID}.checkpoint", b"")
    with pytest.raises(TruncatedSnapshotError):
        opened(disk)
    log = open_log(disk, PATH)
    append(log, make_batch(), 1)
    log.flush()
    assert open_snapshots(log).ids() == ()


def test_errors_are_what_a_start_knows_how_to_report():
    for error in (SnapshotMissingError, DamagedSnapshotError, TruncatedSnapshotError):
        assert issubclass(error, LogError)


# -- pieces of a leader's snapshot -----------------------------------------------------------------


def test_pieces_have_to_follow_each_other(disk):
    log_of(disk, 1)
    store = SnapshotStore(disk, PATH)
    one, other = SnapshotId(4, 2), SnapshotId(5, 2)
    with pytest.raises(ValueError, match="byte 3"):
        store.store_chunk(one, 3, b"abc")
    store.store_chunk(one, 0, b"abc")
    for snapshot_id, position in ((one, 2), (one, 4), (other, 3)):
        with pytest.raises(ValueError, match="no piece"):
            store.store_chunk(snapshot_id, position, b"d")
    store.store_chunk(other, 0, b"x")
    assert names(disk) == [f"{other}.checkpoint.part"], "the first one was given up"
    with pytest.raises(TruncatedSnapshotError):
        store.take_fetched(one)
    assert names(disk) == [], "and what there is of another is of no use"
    store.store_chunk(other, 0, b"x")
    fetched = store.take_fetched(other)
    with pytest.raises(TruncatedSnapshotError):
        fetched.seal()
    store.discard(fetched)
    assert names(disk) == [] and store.ids() == ()


def test_a_snapshot_that_is_begun_again_forgets_the_first_try(disk):
    log_of(disk, 1)
    source = SimDisk()
    source.mkdir(PATH)
    made = SnapshotStore(source, PATH)
    write(made, SnapshotId(4, 2), values_of(9))
    data = source.read(made.path(SnapshotId(4, 2)))
    store = SnapshotStore(disk, PATH)
    store.store_chunk(SnapshotId(4, 2), 0, bytes(5000))
    store.store_chunk(SnapshotId(4, 2), 0, data)
    fetched = store.take_fetched(SnapshotId(4, 2))
    store.place(fetched, fetched.seal())
    assert read_values(disk, store.path(SnapshotId(4, 2))) == values_of(9)


def test_one_in_the_making_does_not_meet_one_that_is_fetched(disk):
    log_of(disk, 1)
    store = SnapshotStore(disk, PATH)
    writer = store.begin(SnapshotId(4, 2), DYNAMIC, 0)
    store.store_chunk(SnapshotId(4, 2), 0, b"pieces")
    writer.extend(values_of(3))
    writer.finish()
    store.forget_fetched()
    store.publish(writer)
    assert read_values(disk, store.path(SnapshotId(4, 2))) == values_of(3)


def test_the_newest_is_never_dropped(disk):
    log_of(disk, 1)
    store = SnapshotStore(disk, PATH)
    write(store, SnapshotId(4, 2), [])
    write(store, SnapshotId(6, 2), [])
    assert store.drop_before(100) == [SnapshotId(4, 2)]
    assert store.ids() == (SnapshotId(6, 2),)


def test_one_that_is_abandoned_leaves_nothing(disk):
    log_of(disk, 1)
    store = SnapshotStore(disk, PATH)
    writer = store.begin(SnapshotId(4, 2), DYNAMIC, 0)
    writer.extend(values_of(3000))
    writer.abandon()
    assert names(disk) == [] and store.ids() == ()
