"""Opening the metadata log: voters, quorum-state, bootstrap records, and damage."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from fencepost.batch.control import build_control_batch
from fencepost.log.errors import CorruptFileError
from fencepost.log.quorum_state import QuorumStateFile
from fencepost.log.snapshots import BOOTSTRAP_ID, SnapshotHeader, SnapshotId, SnapshotStore
from fencepost.machines.quorum import QuorumState
from fencepost.machines.quorum.draft import DraftAdapter
from fencepost.machines.quorum.inputs import LogDamaged
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from fencepost.runtime.metadata.host import METADATA_KEY
from fencepost.runtime.metadata.log import quorum_state_of, stored_quorum_state
from fencepost.runtime.metadata.snapshot_generation import SnapshotRules, header_at, history_of
from fencepost.wire.records.control import (
    ControlType,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from fencepost.wire.records.metadata import FeatureLevelRecord, encode_record
from fencepost.wire.types import Uuid

from .metadata_world import DIRECTORY_ID, LOG, MetadataWorld

OTHER_ID = Uuid(bytes(15) + b"\x64")


def voter(number: int, directory_id: Uuid = DIRECTORY_ID) -> Voter:
    endpoint = Endpoint("CONTROLLER", "localhost", 9000 + number)
    return Voter(ReplicaKey(number, directory_id), (endpoint,), 0, 1)


ALONE = VoterSet((voter(1),))
FEATURE = FeatureLevelRecord(name="metadata.version", feature_level=25)


def put_bootstrap(world, header, records=(FEATURE,)):
    """What formatting leaves."""
    world.disk.mkdir(LOG)
    store = SnapshotStore(world.disk, LOG)
    writer = store.begin(BOOTSTRAP_ID, header, 5)
    writer.extend(encode_record(record) for record in records)
    writer.finish()
    store.publish(writer)


def dynamic_world(**kw):
    world = MetadataWorld(voters=VoterSet(), **kw)
    put_bootstrap(world, SnapshotHeader(5, 1, ALONE.to_record()))
    return world


# -- voters ----------------------------------------------------------------------------------------


def test_the_first_voters_come_from_the_bootstrap_snapshot():
    world = dynamic_world()
    world.start()
    machine = world.host.machine
    assert (machine.kraft_version, machine.voter_set) == (1, ALONE)
    assert machine.is_active_leader
    assert machine.voter_history.at(BOOTSTRAP_ID.end_offset - 1) == ALONE
    assert machine.voter_history.latest_offset > 0, "and the leader has written them into the log"


def test_voters_are_found_again_in_the_log_and_in_snapshots():
    world = dynamic_world(rules=SnapshotRules(max_bytes=1000, interval_ms=0))
    world.start()
    world.create_topics(3)
    world.restart()
    assert world.host.machine.voter_set == ALONE
    world.create_topics(30)
    latest = world.host.snapshots.latest()
    header = world.host.snapshots.header(latest)
    assert header.kraft_version == 1
    assert VoterSet.from_record(header.voters) == ALONE
    world.restart()
    machine = world.host.machine
    assert machine.voter_set == ALONE and machine.is_active_leader
    assert machine.voter_history.latest_offset == latest.end_offset - 1
    assert world.topics_in_image == 33


def test_static_voters_stay_what_is_configured():
    world = MetadataWorld(rules=SnapshotRules(max_bytes=1000, interval_ms=0))
    world.start()
    world.create_topics(30)
    header = world.host.snapshots.header(world.host.snapshots.latest())
    assert (header.kraft_version, header.voters) == (0, None)
    world.restart()
    assert world.host.machine.voter_set == VoterSet.of_ids((1,))


def test_a_snapshot_tells_the_voters_as_of_its_end():
    two = VoterSet((voter(1), voter(2, OTHER_ID)))
    history = VoterHistory(VoterSet())
    history.note_kraft_version(3, 1)
    history.note_voters(3, ALONE)
    history.note_voters(10, two)
    assert VoterSet.from_record(header_at(history, 9, 77).voters) == ALONE
    told = header_at(history, 10, 77)
    assert VoterSet.from_record(told.voters) == two
    assert told.last_contained_log_timestamp_ms == 77
    again = history_of(VoterSet(), SnapshotId(11, 4), told)
    assert (again.latest, again.kraft_version, again.latest_offset) == (two, 1, 10)


# -- quorum-state ----------------------------------------------------------------------------------


def state_on_disk(world):
    return json.loads(world.disk.read(f"{LOG}/quorum-state").partition(b"\n")[0])


def test_quorum_state_is_of_version_0_with_static_voters():
    world = MetadataWorld()
    world.start()
    assert state_on_disk(world) == {
        "clusterId": "",
        "leaderId": 1,
        "leaderEpoch": 1,
        "votedId": 1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}],
        "data_version": 0,
    }


def test_quorum_state_is_of_version_1_with_dynamic_ones():
    world = dynamic_world()
    world.start()
    assert state_on_disk(world) == {
        "leaderId": 1,
        "leaderEpoch": 1,
        "votedId": 1,
        "votedDirectoryId": str(DIRECTORY_ID),
        "data_version": 1,
    }
    world.restart()
    assert world.host.machine.epoch == 2


@pytest.mark.parametrize("level", [0, 1])
def test_either_version_is_read_back(level):
    world = MetadataWorld()
    world.disk.mkdir(LOG)
    file = QuorumStateFile(world.disk, LOG)
    state = QuorumState(7, -1, 2, OTHER_ID if level else Uuid.ZERO, acknowledged_end=(6, 40))
    file.write(stored_quorum_state(state, (1, 2, 3), level))
    assert quorum_state_of(file.read()) == state


def test_without_a_file_it_is_the_beginning():
    assert quorum_state_of(None) == QuorumState()


# -- what was promised and is gone -----------------------------------------------------------------


def lived(**kw):
    """A voter that has written, and was stopped in order."""
    world = MetadataWorld(**kw)
    world.start()
    world.create_topics(3)
    world.stop()
    return world


def remove_log(world):
    for name in world.disk.list(LOG):
        world.disk.unlink(f"{LOG}/{name}")
    world.disk.rmdir(LOG)


def remove_state(world):
    world.disk.unlink(f"{LOG}/quorum-state")


@pytest.mark.parametrize("remove", [remove_log, remove_state])
def test_a_voter_that_has_forgotten_does_not_start(remove):
    world = lived()
    remove(world)
    for _ in range(2):  # the refusal must not be what takes the evidence away
        with pytest.raises(CorruptFileError, match=r"is gone, and .* offset 7; .*add-voter"):
            world.start()
        world.log_dir.close(clean=False)


def test_nor_with_a_snapshot_and_an_empty_log():
    world = lived(rules=SnapshotRules(max_bytes=1, interval_ms=0))
    snapshot = [name for name in world.disk.list(LOG) if name.endswith(".checkpoint")]
    assert snapshot, "one was taken"
    for name in set(world.disk.list(LOG)) - set(snapshot):
        world.disk.unlink(f"{LOG}/{name}")
    world.disk.unlink("/data/recovery-point-offset-checkpoint")
    world.disk.unlink("/data/__cluster_metadata-0.durable-end")
    with pytest.raises(CorruptFileError, match="quorum-state: is gone"):
        world.start()


@pytest.mark.parametrize(("remove", "topics"), [(remove_log, 0), (remove_state, 3)])
def test_a_lone_voter_may_accept_the_loss(remove, topics):
    world = lived()
    remove(world)
    world.start(accept_loss=True)
    assert world.topics_in_image == topics
    world.restart()


@pytest.mark.parametrize("remove", [remove_log, remove_state])
def test_a_broker_promises_nothing_and_starts_over(remove):
    world = lived()
    remove(world)
    world.config = replace(world.config, can_become_voter=False)
    world.start()
    assert not world.broken


def test_a_directory_that_is_just_formatted_starts():
    world = dynamic_world()
    world.start()
    world.create_topic()
    world.restart()
    assert world.topics_in_image == 1


# -- what the first controller is to write ---------------------------------------------------------


def test_bootstrap_records_are_not_in_the_image_by_themselves():
    world = MetadataWorld()
    put_bootstrap(world, SnapshotHeader(5))
    world.start()
    assert list(world.host.bootstrap_records) == [FEATURE]
    assert world.host.image.features == {}


def test_what_kafka_left_before_4_4_is_read():
    """KIP-1170: `bootstrap.checkpoint` has the records, the bootstrap snapshot only the voters."""
    world = dynamic_world()
    put_bootstrap(world, SnapshotHeader(5, 1, ALONE.to_record()), records=())
    source = MetadataWorld()
    put_bootstrap(source, SnapshotHeader(5))
    content = source.disk.read(f"{LOG}/{BOOTSTRAP_ID}.checkpoint")
    world.disk.write_atomic("/data/bootstrap.checkpoint", content)
    world.start()
    assert list(world.host.bootstrap_records) == [FEATURE]
    assert world.host.machine.voter_set == ALONE


def test_a_node_without_any_has_none():
    world = MetadataWorld()
    world.start()
    assert list(world.host.bootstrap_records) == []


def test_a_bootstrap_file_that_cannot_be_read_ends_the_start():
    world = MetadataWorld()
    parts = [
        (ControlType.SNAPSHOT_HEADER, SnapshotHeaderRecord(version=0), 0),
        (ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0), 1),
    ]
    batches = [
        build_control_batch([(kind, record)], timestamp_ms=1, base_offset=offset)
        for kind, record, offset in parts
    ]
    world.disk.write_atomic("/data/bootstrap.checkpoint", batches[0])
    with pytest.raises(CorruptFileError, match="footer"):
        world.start()
    world.log_dir.close(clean=False)
    world.disk.write_atomic("/data/bootstrap.checkpoint", b"".join(batches))
    world.start()
    assert list(world.host.bootstrap_records) == []


# -- damage ----------------------------------------------------------------------------------------


def spoil(world, topic):
    """Flip a bit of the batch that created this topic."""
    name = f"t{topic}".encode() + bytes(6)
    for file in world.disk.list(LOG):
        path = f"{LOG}/{file}"
        if file.endswith(".log") and name in world.disk.read(path):
            world.disk.flip_bit(path, world.disk.read(path).index(name) * 8 + 1)
            return
    raise AssertionError(f"no topic {topic}")


def test_committed_metadata_that_cannot_be_read_is_never_passed_over():
    """S53: the image ends in front of it, the machine is told, and the node gives up."""
    world = MetadataWorld(segment_bytes=1000)
    world.start()
    world.create_topics(30)
    world.stop()
    spoil(world, 5)
    world.start()
    assert world.broken and "cannot be read" in world.broken[0]
    assert world.topics_in_image == 5, "what stands before it"
    assert world.host.machine.damaged_at is not None


def test_damage_that_a_snapshot_stands_for_does_no_harm():
    world = MetadataWorld(segment_bytes=1000)
    world.start()
    world.create_topics(30)
    world.host.take_snapshot()
    world.stop()
    spoil(world, 5)
    world.start()
    assert not world.broken and world.topics_in_image == 30


def test_the_image_is_told_from_the_first_offset_on():
    world = MetadataWorld()
    world.start()
    world.create_topic()
    assert world.host.image.offset == world.host.machine.high_watermark - 1
    hosted = world.ports.driver.machine(METADATA_KEY)
    assert isinstance(hosted, DraftAdapter) and hosted.machine is world.host.machine


def test_damage_behind_the_image_is_replaced_by_a_snapshot():
    """The damaged batch cannot be read, but everything that it said is in the image."""
    world = MetadataWorld()
    world.start()
    world.create_topics(8)
    world.ports.driver.feed(METADATA_KEY, LogDamaged(1, "a test says so"))
    latest = world.host.snapshots.latest()
    assert latest is not None and latest.end_offset == world.host.image.offset + 1
    assert world.host.log.start_offset == latest.end_offset
    assert world.host.machine.damaged_at is None
    world.timers.advance(10_000)
    world.create_topics(2)
    world.restart()
    assert world.topics_in_image == 10 and not world.broken


# -- repair ----------------------------------------------------------------------------------------


def batches_of(world):
    """Offset and bytes of every batch of the log."""
    log = world.host.log
    found = log.read_all_batches(log.start_offset, log.end_offset)
    return [(header.base_offset, bytes(batch)) for header, batch in found]


def damaged_world(topic):
    """A log in which the batch of a topic is corrupt; what it was; and where it stands."""
    world = MetadataWorld(segment_bytes=1000)
    world.start()
    world.create_topics(30)
    sound = batches_of(world)
    world.stop()
    spoil(world, topic)
    world.start()
    name = f"t{topic}".encode() + bytes(6)
    return world, sound, next(offset for offset, batch in sound if name in batch)


@pytest.mark.parametrize("topic", range(0, 24, 3))
def test_a_damaged_batch_is_found_and_repaired_in_place(topic):
    world, sound, offset = damaged_world(topic)
    log = world.host.log
    assert log.first_damaged(log.start_offset) == offset
    assert log.first_damaged(offset) == offset
    assert log.first_damaged(offset + 2) is None
    log.repair_batch(offset, dict(sound)[offset])
    assert log.first_damaged(log.start_offset) is None
    assert batches_of(world)[: len(sound)] == sound
    world.stop()
    world.broken.clear()
    world.start()
    assert world.topics_in_image == 30 and not world.broken


def test_a_corrupt_header_is_repaired_too():
    world, sound, offset = damaged_world(5)
    path = next(
        f"{LOG}/{name}"
        for name in world.disk.list(LOG)
        if name.endswith(".log") and dict(sound)[offset][:24] in world.disk.read(f"{LOG}/{name}")
    )
    at = world.disk.read(path).index(dict(sound)[offset][:24])
    for byte in (3, 9, 16, 26):  # the base offset, the length, the magic, the last offset
        world.disk.flip_bit(path, (at + byte) * 8)
    log = world.host.log
    assert log.first_damaged(log.start_offset) == offset
    log.repair_batch(offset, dict(sound)[offset])
    assert log.first_damaged(log.start_offset) is None


def test_nothing_else_is_written_there():
    world, sound, offset = damaged_world(5)
    log, good = world.host.log, dict(sound)
    before = [world.disk.read(f"{LOG}/{n}") for n in world.disk.list(LOG) if n.endswith(".log")]
    other = next(batch for at, batch in sound if at != offset and len(batch) == len(good[offset]))
    for batch in (other, good[offset] + b"x", good[offset] + other):
        with pytest.raises(ValueError, match="no batch"):
            log.repair_batch(offset, batch)
    others = [batch for _, batch in sound if len(batch) != len(good[offset])]
    assert others, "batches differ in size"
    for batch in others:
        with pytest.raises(ValueError, match="does not end where"):
            log.repair_batch(offset, offset.to_bytes(8) + batch[8:])
    after = [world.disk.read(f"{LOG}/{n}") for n in world.disk.list(LOG) if n.endswith(".log")]
    assert after == before
