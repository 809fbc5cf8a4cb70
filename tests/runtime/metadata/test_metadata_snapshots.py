"""Snapshots in a node's life: taken, loaded, taken over, and the log cut behind them."""

from __future__ import annotations

import pytest

from fencepost.log.snapshots import SnapshotHeader, SnapshotId, SnapshotStore
from fencepost.log.snapshots.opening import SnapshotMissingError
from fencepost.machines.effects import InstallSnapshot, StoreSnapshot
from fencepost.machines.quorum.inputs import (
    SnapshotBounds,
    SnapshotInstalled,
    SnapshotRefused,
)
from fencepost.runtime.metadata.host import METADATA_KEY
from fencepost.runtime.metadata.snapshot_generation import SnapshotRules
from fencepost.sim.disk import Crash, SimDisk
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.control import Voter, VotersRecord
from fencepost.wire.records.metadata import (
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionRecord,
    encode_record,
)
from fencepost.wire.types import Uuid

from .metadata_world import LOG, MetadataWorld

OFTEN = SnapshotRules(max_bytes=1000, interval_ms=0)


def test_a_snapshot_is_taken_when_enough_is_committed():
    world = MetadataWorld(rules=OFTEN)
    world.start()
    assert world.host.snapshots.latest() is None
    world.create_topics(20)
    latest = world.host.snapshots.latest()
    assert latest is not None and latest.epoch == world.host.machine.epoch
    assert len(world.checkpoints()) > 1, "and nothing is dropped before retention says so"
    assert not world.broken and not world.ports.failures


def test_a_restart_begins_with_the_newest_snapshot():
    world = MetadataWorld(rules=OFTEN)
    world.start()
    world.create_topics(25)
    before = world.host.image
    world.restart()
    assert world.topics_in_image == 25
    assert world.host.image.topics_by_id == before.topics_by_id
    assert len(world.deltas[0].created_topics) >= 20, "the snapshot's come at once"
    world.create_topics(3)
    assert world.topics_in_image == 28


def test_time_alone_takes_one_if_anything_is_new():
    world = MetadataWorld(rules=SnapshotRules(max_bytes=1 << 30, interval_ms=60_000))
    world.start()
    world.timers.advance(59_000)
    assert world.host.snapshots.latest() is None
    world.timers.advance(2_000)
    first = world.host.snapshots.latest()
    assert first is not None, "the leader's first record was new"
    world.timers.advance(600_000)
    assert world.host.snapshots.latest() == first, "nothing has happened since"
    world.create_topic()
    world.timers.advance(61_000)
    assert world.host.snapshots.latest() > first


def test_no_snapshot_is_taken_inside_of_a_transaction():
    world = MetadataWorld(rules=SnapshotRules(max_bytes=1, interval_ms=0))
    world.start()
    world.create_topic()
    before = world.host.snapshots.latest()
    world.write([BeginTransactionRecord(name="x")])
    world.write([FeatureLevelRecord(name="metadata.version", feature_level=30)])
    assert world.host.snapshots.latest() == before
    world.write([EndTransactionRecord()])
    assert world.host.snapshots.latest() > before
    world.restart()
    assert world.host.image.features == {"metadata.version": 30}


def test_retention_drops_the_prefix_and_the_snapshots_in_it():
    world = MetadataWorld(rules=OFTEN, retention_bytes=3000, segment_bytes=1000)
    world.start()
    world.create_topics(60)
    store = world.host.snapshots
    assert world.host.log.start_offset > 0
    assert store.earliest().end_offset >= world.host.log.start_offset
    assert len(store.ids()) < 6
    world.restart()
    assert world.topics_in_image == 60
    assert world.host.log.start_offset > 0


def test_writing_goes_on_while_a_snapshot_is_written():
    world = MetadataWorld(rules=OFTEN)
    world.start()
    world.ports.waits_in_background = True
    world.create_topics(30)
    assert len(world.ports.in_background) == 1, "one at a time"
    assert world.host.snapshots.latest() is None
    world.ports.waits_in_background = False
    world.ports.in_background.pop()()
    written = world.host.snapshots.ids()
    assert len(written) == 2, "the next one was due and follows"
    world.restart()
    assert world.topics_in_image == 30


def test_a_snapshot_that_cannot_be_written_is_no_end():
    world = MetadataWorld(rules=OFTEN)
    world.start()

    def fail(operation, path, _):
        return OSError(28, "No space left on device") if path.endswith(".part") else None

    world.disk.fault = fail
    world.create_topics(20)
    assert world.host.snapshots.latest() is None and not world.broken
    world.disk.fault = None
    world.create_topics(20)
    assert world.host.snapshots.latest() is not None
    world.restart()
    assert world.topics_in_image == 40


def test_a_log_that_begins_behind_0_without_a_snapshot_is_refused():
    """KAFKA-14240, S43."""
    world = MetadataWorld(rules=OFTEN, retention_bytes=3000, segment_bytes=1000)
    world.start()
    world.create_topics(60)
    world.stop()
    for name in world.checkpoints():
        world.disk.unlink(f"{LOG}/{name}")
    with pytest.raises(SnapshotMissingError):
        world.start()


@pytest.mark.parametrize("power", [True, False], ids=["power", "process"])
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.long)])
def test_a_crash_at_every_change(power, step):
    """Snapshots are taken, prefixes dropped: what was acknowledged is there after any crash."""

    def world_until(crash_at):
        world = MetadataWorld(
            rules=OFTEN, retention_bytes=3000, segment_bytes=1000, disk_seed=crash_at or 0
        )
        world.disk.crash_at = crash_at
        try:
            world.start()
            world.create_topics(45)
        except Crash:
            return world
        return world if crash_at is None else None

    changes = world_until(None).disk.changes
    crashes = 0
    for crash_at in range(10, changes, step):
        world = world_until(crash_at)
        if world is None:
            continue
        crashes += 1
        world.crash(power=power)
        world.start()
        assert world.acked <= world.topics_in_image <= world.acked + 1, crash_at
        world.topics = world.topics_in_image
        world.create_topics(2)
        assert not any(name.endswith(".part") for name in world.checkpoints())
    assert crashes > 200 / step


# -- taking over a leader's snapshot ---------------------------------------------------------------


def leaders_snapshot() -> tuple[SnapshotId, bytes]:
    """The newest snapshot of a log with 40 topics, in an epoch above anybody else's here."""
    world = MetadataWorld(rules=OFTEN)
    world.start()
    for _ in range(8):
        world.restart()
    world.create_topics(40)
    latest = world.host.snapshots.latest()
    return latest, world.disk.read(world.host.snapshots.path(latest))


SNAPSHOT_ID, SNAPSHOT = leaders_snapshot()


def fetch(world, data=SNAPSHOT, piece=700):
    """Have the snapshot stored, piece by piece."""
    keeper = world.host._keeper
    for position in range(0, len(data), piece):
        part = data[position : position + piece]
        keeper.store(StoreSnapshot(SNAPSHOT_ID, position, part, len(data)))


def heard(world):
    """What the machine is told from now on; it does not hear it."""
    inputs = []
    world.host._keeper._feed = inputs.append
    return inputs


def test_a_snapshot_takes_the_place_of_the_log():
    world = MetadataWorld()
    world.start()
    world.create_topics(5)
    inputs = heard(world)
    fetch(world)
    world.host._keeper.install(InstallSnapshot(SNAPSHOT_ID))
    assert [type(one) for one in inputs] == [SnapshotInstalled]
    assert (world.host.log.start_offset, world.host.log.end_offset) == (SNAPSHOT_ID[0],) * 2
    assert world.host.snapshots.ids() == (SNAPSHOT_ID,)
    assert world.checkpoints() == [f"{SNAPSHOT_ID}.checkpoint"]
    world.stop()
    world.start()
    assert world.topics_in_image > 30


def test_a_snapshot_that_is_overtaken_while_it_is_written_leaves_nothing():
    world = MetadataWorld(rules=OFTEN)
    world.start()
    world.ports.waits_in_background = True
    world.create_topics(15)
    (write,) = world.ports.in_background
    world.ports.in_background.clear()
    world.ports.waits_in_background = False
    heard(world)
    fetch(world)
    world.host._keeper.install(InstallSnapshot(SNAPSHOT_ID))
    assert world.host.snapshots.ids() == (SNAPSHOT_ID,)
    write()
    assert world.host.snapshots.ids() == (SNAPSHOT_ID,)
    assert [name for name in world.disk.list(LOG) if name.endswith(".part")] == []


def test_the_image_after_it_is_the_snapshots_and_everybody_hears_what_changed():
    world = MetadataWorld()
    world.start()
    world.create_topics(3)
    old = world.host.image
    heard(world)
    fetch(world)
    world.host._keeper.install(InstallSnapshot(SNAPSHOT_ID))
    world.host.machine.log.high_watermark = SNAPSHOT_ID.end_offset
    world.host.catch_up()
    assert world.host.image.offset == SNAPSHOT_ID.end_offset - 1
    assert world.host.image.epoch == SNAPSHOT_ID.epoch
    delta = world.deltas[-1]
    assert delta.old is old and delta.new is world.host.image
    assert len(delta.created_topics) == world.topics_in_image - 3


@pytest.mark.parametrize("cut", [0, 1, 100, len(SNAPSHOT) - 1])
def test_a_snapshot_cut_short_is_refused(cut):
    world = MetadataWorld()
    world.start()
    world.create_topics(5)
    inputs = heard(world)
    if cut:
        fetch(world, SNAPSHOT[:cut])
    world.host._keeper.install(InstallSnapshot(SNAPSHOT_ID))
    assert [type(one) for one in inputs] == [SnapshotRefused]
    assert world.checkpoints() == []
    world.create_topic()
    assert world.topics_in_image == 6, "the log is as it was"


def test_a_snapshot_with_a_corrupt_bit_is_refused_and_can_be_fetched_again():
    world = MetadataWorld()
    world.start()
    inputs = heard(world)
    bad = bytearray(SNAPSHOT)
    bad[len(bad) // 2] ^= 4
    fetch(world, bytes(bad))
    world.host._keeper.install(InstallSnapshot(SNAPSHOT_ID))
    fetch(world)
    world.host._keeper.install(InstallSnapshot(SNAPSHOT_ID))
    assert [type(one) for one in inputs] == [SnapshotRefused, SnapshotInstalled]


PLAIN = SnapshotHeader(5)


def written(values, header=PLAIN):
    """A snapshot whose checksums hold, with whatever values in it."""
    disk = SimDisk(0)
    disk.mkdir(LOG)
    writer = SnapshotStore(disk, LOG).begin(SNAPSHOT_ID, header, 5)
    writer.extend(values)
    writer.finish()
    return disk.read(writer.path)


NOBODYS_PARTITION = PartitionRecord(partition_id=0, topic_id=Uuid(bytes(15) + b"x"))


@pytest.mark.parametrize(
    "values",
    [[b"\x01\x7f\x00"], [b""], [encode_record(NOBODYS_PARTITION)], [b"\x01\x02\x00\xff\xff"]],
    ids=["unknown-record", "empty", "topic-that-is-not-there", "cut-record"],
)
def test_a_snapshot_that_cannot_be_understood_is_refused_before_it_takes_the_logs_place(values):
    world = MetadataWorld()
    world.start()
    world.create_topics(5)
    inputs = heard(world)
    fetch(world, written(values))
    world.host._keeper.install(InstallSnapshot(SNAPSHOT_ID))
    assert [type(one) for one in inputs] == [SnapshotRefused]
    assert world.checkpoints() == []
    world.restart()
    assert world.topics_in_image == 5 and not world.broken, "the log is as it was"


def test_a_snapshot_with_voters_that_cannot_be_is_refused_likewise():
    world = MetadataWorld()
    world.start()
    inputs = heard(world)
    twice = VotersRecord(version=0, voters=[Voter(voter_id=2), Voter(voter_id=2)])
    fetch(world, written([], SnapshotHeader(5, 1, twice)))
    world.host._keeper.install(InstallSnapshot(SNAPSHOT_ID))
    assert [type(one) for one in inputs] == [SnapshotRefused]
    assert world.checkpoints() == []


def test_a_snapshot_that_was_taken_over_is_read_once(monkeypatch):
    world = MetadataWorld()
    world.start()
    heard(world)
    fetch(world)
    world.host._keeper.install(InstallSnapshot(SNAPSHOT_ID))
    monkeypatch.setattr(world.host.snapshots, "open", None)
    world.host.machine.log.high_watermark = SNAPSHOT_ID.end_offset
    world.host.catch_up()
    assert world.topics_in_image > 30 and not world.broken


# -- serving one -----------------------------------------------------------------------------------


def served(world, position=0):
    """What a follower that asks for the newest snapshot gets."""
    latest = world.host.snapshots.latest()
    bounds = SnapshotBounds(
        ErrorCode.NONE, 1, 1, snapshot_id=latest, position_bytes=position, max_bytes=1 << 20
    )
    return world.host.read_snapshot(bounds)


@pytest.mark.parametrize("is_of_the_image", [True, False])
def test_a_corrupt_snapshot_is_not_served_and_another_takes_its_place(is_of_the_image):
    world = MetadataWorld()
    world.start()
    world.create_topics(20)
    world.host.take_snapshot()
    latest = world.host.snapshots.latest()
    path = world.host.snapshots.path(latest)
    sound = served(world)
    if not is_of_the_image:
        world.create_topics(1)
    world.disk.flip_bit(path, 8 * 300)
    assert served(world) is None
    newest = world.host.snapshots.latest()
    assert (newest == latest) is is_of_the_image
    again = served(world)
    assert again is not None and len(again) >= len(sound)
    assert served(world, 100) == again[100:]
    world.restart()
    assert world.topics_in_image == world.topics and not world.broken


@pytest.mark.parametrize("power", [True, False], ids=["power", "process"])
def test_a_crash_at_every_change_while_one_is_taken_over(power):
    """Afterwards the log is the old one, or goes on from the snapshot; never anything between."""

    def world_until(offset):
        world = MetadataWorld(disk_seed=offset or 0)
        world.start()
        world.create_topics(5)
        began = world.disk.changes
        heard(world)
        world.disk.crash_at = None if offset is None else began + offset
        try:
            fetch(world)
            world.host._keeper.install(InstallSnapshot(SNAPSHOT_ID))
        except Crash:
            return world, 0
        return world, world.disk.changes - began

    _, changes = world_until(None)
    found = set()
    for offset in range(1, changes + 1):
        world, _ = world_until(offset)
        world.crash(power=power)
        world.start()
        store: SnapshotStore = world.host.snapshots
        count = world.topics_in_image
        if store.latest() == SNAPSHOT_ID:
            assert world.host.log.start_offset == SNAPSHOT_ID.end_offset
            assert count > 30
        else:
            assert store.latest() is None and count == 5
        found.add(count)
        world.topics = count
        world.create_topics(2)
        world.restart()
        assert world.topics_in_image == count + 2
    assert len(found) == 2, "both ends are met"


def test_a_zero_length_snapshot_is_set_aside_while_the_log_has_everything():
    """KAFKA-15312, S42: a file renamed before it was synced; Kafka before 3.7 leaves those."""
    world = MetadataWorld(rules=OFTEN)
    world.start()
    world.create_topics(25)
    latest = world.host.snapshots.latest()
    path = world.host.snapshots.path(latest)
    world.stop()
    file = world.disk.open(path)
    file.truncate(0)
    file.close()
    world.start()
    assert latest not in world.host.snapshots.ids()
    assert world.topics_in_image == 25
    assert f"{latest}.checkpoint.aside" in world.checkpoints()


def test_a_damaged_snapshot_that_is_needed_ends_the_start():
    world = MetadataWorld(rules=OFTEN, retention_bytes=1, segment_bytes=1000)
    world.start()
    world.create_topics(60)
    store = world.host.snapshots
    assert len(store.ids()) == 1
    path = store.path(store.latest())
    world.stop()
    world.disk.flip_bit(path, 8 * 300)
    with pytest.raises(Exception, match="checksum"):
        world.start()


def test_the_driver_carries_snapshot_work_to_the_keeper():
    world = MetadataWorld()
    world.start()
    heard(world)
    world.ports.store_snapshot(METADATA_KEY, StoreSnapshot(SNAPSHOT_ID, 0, SNAPSHOT, len(SNAPSHOT)))
    world.ports.install_snapshot(METADATA_KEY, InstallSnapshot(SNAPSHOT_ID))
    assert world.host.snapshots.latest() == SNAPSHOT_ID
