"""S53 at a start: a metadata log that has lost what was durable, and what it had promised."""

from __future__ import annotations

import contextlib
import json

import pytest
from msgspec.structs import replace

from fencepost.batch.header import iter_headers
from fencepost.batch.records import build_batch
from fencepost.log.durable_end import decode_durable_end
from fencepost.log.errors import CorruptFileError, DurableDataLostError
from fencepost.log.quorum_state import QuorumStateFile
from fencepost.machines.effects import TimerFired
from fencepost.machines.quorum import QuorumState, Role, inputs, messages
from fencepost.machines.quorum.inputs import answered, received
from fencepost.machines.quorum.voters import VoterSet
from fencepost.runtime.metadata.host import METADATA_KEY
from fencepost.runtime.metadata.snapshot_generation import SnapshotRules
from fencepost.sim.disk import Crash
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .metadata_world import LOG, MetadataWorld

SEGMENT = f"{LOG}/00000000000000000000.log"
DURABLE_END = "/data/__cluster_metadata-0.durable-end"
THREE = VoterSet.of_ids((1, 2, 3))
TOPICS = 8
END = 1 + 2 * TOPICS
"""Where its log ends: a LeaderChange, and two records for each topic."""


def one_of_three(*, power: bool = False, checkpoint: bool = True, **options) -> MetadataWorld:
    """A voter of three is down. (It wrote its log while it was alone; who wrote it is all one.)"""
    world = MetadataWorld(**options)
    world.start()
    world.create_topics(TOPICS)
    if checkpoint:
        world.log_dir.checkpoint_recovery_points()
    world.crash(power=power)
    world.voters = THREE
    return world


def spoil(world: MetadataWorld, topic: int) -> int:
    """Flip a bit of the batch that created this topic; the offset of the batch."""
    content = world.disk.read(SEGMENT)
    at = content.index(f"t{topic}".encode() + bytes(6))
    world.disk.flip_bit(SEGMENT, at * 8 + 1)
    return 1 + 2 * topic


def promised_on_disk(world: MetadataWorld) -> tuple[int, int]:
    stored = QuorumStateFile(world.disk, LOG).read()
    assert stored is not None
    return stored.acknowledged_end


def would_vote_for(world: MetadataWorld, log_end: tuple[int, int]) -> bool:
    """Whether voter 3 gets this one's vote, in the next epoch."""
    machine, answers = world.host.machine, []
    request = messages.vote_request(world.config, 1, 3, machine.epoch + 1, log_end, False)
    world.ports.driver.feed(METADATA_KEY, received(answers.append, request))
    return bool(answers[0].topics[0].partitions[0].vote_granted)


@pytest.mark.parametrize("topic", [0, 3, TOPICS - 1])
def test_a_voter_of_several_cuts_the_damage_off_and_keeps_its_promise(topic):
    world = one_of_three()
    offset = spoil(world, topic)
    world.start()
    machine = world.host.machine
    assert (machine.end_offset, world.host.log.end_offset) == (offset, offset)
    assert promised_on_disk(world) == machine.state.acknowledged_end == (1, END)
    for _ in range(3):
        world.ports.driver.feed(METADATA_KEY, TimerFired(inputs.ELECTION))
        world.timers.advance(10_000)
    assert machine.role in (Role.UNATTACHED, Role.RESIGNED), "it does not stand"
    assert not would_vote_for(world, (1, END - 1))
    assert would_vote_for(world, (1, END))
    assert not world.broken


def test_the_promise_outlives_any_number_of_starts():
    world = one_of_three()
    spoil(world, 3)
    for clean in (False, True, False):
        world.start()
        assert world.host.machine.state.acknowledged_end == (1, END)
        assert not would_vote_for(world, (1, END - 1))
        if clean:
            world.stop()
        else:
            world.crash()


@pytest.mark.parametrize("power", [True, False], ids=["power", "process"])
def test_a_crash_at_every_change_of_such_a_start(power):
    """Whatever is left: nothing is cut before the promise is durable."""

    def started(crash_at: int | None) -> MetadataWorld:
        world = one_of_three(disk_seed=crash_at or 0)
        spoil(world, 3)
        world.disk.changes, world.disk.crash_at = 0, crash_at
        with contextlib.suppress(Crash):
            world.start()
        return world

    changes = started(None).disk.changes
    assert changes > 10
    for crash_at in range(1, changes + 1):
        world = started(crash_at)
        world.crash(power=power)
        world.start()
        assert world.host.machine.state.acknowledged_end == (1, END), crash_at
        assert world.host.log.end_offset == 7, crash_at


def test_the_only_voter_refuses_and_says_what_can_be_done():
    world = one_of_three()
    world.voters = VoterSet.of_ids((1,))
    spoil(world, 3)
    before = world.disk.read(SEGMENT)
    for _ in range(2):
        with pytest.raises(DurableDataLostError, match=r"the only voter.*accept\.loss=__cluster_m"):
            world.start()
        world.log_dir.close(clean=False)
    assert world.disk.read(SEGMENT) == before, "nothing was cut"
    world.start(accept_loss=True)
    assert world.topics_in_image == 3 and world.host.machine.is_active_leader
    world.restart()
    assert world.topics_in_image == 3


def test_who_accepts_the_loss_promises_nothing_any_more():
    world = one_of_three()
    spoil(world, 3)
    world.start()
    world.crash()
    world.voters = VoterSet.of_ids((1,))
    world.start()
    assert world.host.machine.role is Role.FAILED, "the only one now, and it lacks what it promised"
    assert "no other node has them" in world.ports.failures[0]
    world.crash()
    world.start(accept_loss=True)
    assert world.host.machine.is_active_leader
    assert promised_on_disk(world) == (0, 0)


def test_a_broker_has_promised_nothing():
    world = one_of_three()
    offset = spoil(world, 3)
    world.config = replace(world.config, can_become_voter=False)
    world.start()
    assert (world.host.log.end_offset, world.host.machine.state.acknowledged_end) == (
        offset,
        (0, 0),
    )


@pytest.mark.parametrize("share", [0.0, 0.4, 0.9])
def test_damage_of_a_log_that_was_closed_in_order(share):
    """The start does not read it whole: damage where an epoch begins is found at once, other damage
    later."""
    world = MetadataWorld()
    for _ in range(4):
        world.start()
        world.create_topics(3)
        world.stop()
    world.voters = THREE
    size = world.disk.size(SEGMENT)
    at = int(size * share)
    world.disk.open(SEGMENT).write_at(bytes(size // 3 if share < 0.9 else size - at), at)
    world.start()
    end = 4 * (1 + 2 * 3)
    assert world.host.log.end_offset < end
    assert world.host.machine.state.acknowledged_end == (4, end)
    assert not world.broken


def test_without_its_quorum_state_it_does_not_start():
    world = one_of_three()
    spoil(world, 3)
    world.disk.unlink(f"{LOG}/quorum-state")
    with pytest.raises(CorruptFileError, match=r"quorum-state: is gone, and .* damaged"):
        world.start()


def test_the_end_of_a_log_that_is_missing_is_promised_too():
    world = one_of_three()
    file = world.disk.open(SEGMENT)
    file.truncate(file.size() * 2 // 3)
    file.sync()
    world.start()
    assert world.host.log.end_offset < END
    assert world.host.machine.state.acknowledged_end == (1, END)


def test_records_above_every_mark_are_promised_if_they_can_be_read():
    """The checkpoint is old, and the file of the durable end is gone."""
    world = MetadataWorld()
    world.start()
    world.create_topics(4)
    world.log_dir.checkpoint_recovery_points()
    world.create_topics(TOPICS - 4)
    world.crash(power=False)
    world.disk.unlink(DURABLE_END)
    world.voters = THREE
    spoil(world, 2)
    world.start()
    assert world.host.log.end_offset == 5
    assert world.host.machine.state.acknowledged_end == (1, END)


def test_a_snapshot_beyond_the_damage_takes_the_logs_place():
    world = MetadataWorld(rules=SnapshotRules(max_bytes=300, interval_ms=0), retention_bytes=1)
    world.start()
    world.create_topics(TOPICS)
    start_offset = world.host.log.start_offset
    assert start_offset > 0
    world.log_dir.checkpoint()
    world.crash(power=False)
    world.voters = THREE
    spoil(world, 0)  # below the log's start, and in its first segment
    world.start()
    latest = world.host.snapshots.latest()
    assert world.host.log.start_offset == world.host.log.end_offset == latest.end_offset
    assert world.host.machine.high_watermark == latest.end_offset
    promised = world.host.machine.state.acknowledged_end
    assert promised in ((0, 0), (1, END)) and latest.end_offset <= END
    assert (promised == (0, 0)) == (latest.end_offset == END)


# -- above the recovery point ----------------------------------------------------------------------


@pytest.mark.parametrize("topic", [0, TOPICS - 1])
def test_corruption_above_the_checkpoint_is_no_torn_tail(topic):
    """No recovery point was checkpointed since the log was made; each flush has said how far."""
    world = one_of_three(checkpoint=False)
    spoil(world, topic)
    world.start()
    assert world.host.machine.state.acknowledged_end == (1, END)


def test_what_was_never_flushed_may_be_torn():
    world = one_of_three(checkpoint=False)
    file = world.disk.open(SEGMENT)
    file.write_at(b"\0" * 30, file.size())
    world.start()
    assert world.host.log.end_offset == END
    assert world.host.machine.state.acknowledged_end == (0, 0)


def test_the_durable_end_is_written_after_each_flush_and_reaches_the_disk_now_and_then():
    world = MetadataWorld()
    world.start()
    for number in range(100):
        world.create_topic()
        assert decode_durable_end("", world.disk.read(DURABLE_END)) == 3 + 2 * number
    end_offset = world.host.log.end_offset
    world.crash(power=True)
    durable = decode_durable_end("", world.disk.read(DURABLE_END))
    assert end_offset - 2 * 33 <= durable <= end_offset
    world.start()
    assert world.topics_in_image == 100


def test_a_durable_end_that_cannot_be_read_is_no_reason_to_stop():
    world = one_of_three()
    world.disk.flip_bit(DURABLE_END, 77)
    world.start()
    assert world.host.log.end_offset == END
    world.crash(power=False)
    assert decode_durable_end("", world.disk.read(DURABLE_END)) == END


def test_a_cut_lowers_the_durable_end_before_it_happens():
    """Otherwise the next start would miss what was cut."""
    for crash_at in range(1, 30):
        world = MetadataWorld(disk_seed=crash_at)
        world.start()
        world.create_topics(3)
        world.disk.changes, world.disk.crash_at = 0, crash_at
        with contextlib.suppress(Crash):
            world.host.log.truncate_to(3)
        world.crash()
        world.start()
        assert world.topics_in_image in (1, 3)


# -- a log that is gone ----------------------------------------------------------------------------


def remove_log(world: MetadataWorld) -> None:
    for name in world.disk.list(LOG):
        world.disk.unlink(f"{LOG}/{name}")
    world.disk.rmdir(LOG)


def test_a_voter_whose_log_was_deleted_before_the_first_checkpoint_does_not_start():
    world = one_of_three(checkpoint=False)
    assert not world.disk.exists("/data/recovery-point-offset-checkpoint")
    remove_log(world)
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=rf"is gone, and .* offset {END}; .*add-voter"):
            world.start()
        world.log_dir.close(clean=False)


def test_nor_one_that_had_done_nothing_but_vote():
    world = MetadataWorld(voters=THREE)
    world.start()
    assert would_vote_for(world, (0, 0))
    world.crash(power=True)
    remove_log(world)
    with pytest.raises(CorruptFileError, match=r"is gone, and .* offset 0; .*add-voter"):
        world.start()


def test_a_crash_at_every_change_of_the_first_start_is_no_deleted_log():
    world = MetadataWorld(voters=THREE)
    world.disk.changes = 0
    world.start()
    changes = world.disk.changes
    for crash_at in range(1, changes + 1):
        world = MetadataWorld(voters=THREE, disk_seed=crash_at)
        world.disk.changes, world.disk.crash_at = 0, crash_at
        with contextlib.suppress(Crash):
            world.start()
        world.crash()
        world.start()
        assert not world.broken and not world.ports.failures, crash_at


def test_a_topic_id_that_is_corrupt_does_not_make_the_log_stray():
    world = one_of_three()
    path = f"{LOG}/partition.metadata"
    content = world.disk.read(path).replace(
        str(Uuid.METADATA_TOPIC_ID).encode(), str(Uuid(bytes(15) + b"\x05")).encode()
    )
    world.disk.write_atomic(path, content)
    with pytest.raises(CorruptFileError, match=r"belongs to topic id .*add-voter"):
        world.start()
    assert world.disk.exists(SEGMENT)
    assert json.loads(world.disk.read(f"{LOG}/quorum-state").partition(b"\n")[0])["votedId"] == 1


# -- the promise is kept ---------------------------------------------------------------------------


def follow(world: MetadataWorld) -> None:
    """Voter 2 leads the next epoch, and says so."""
    machine = world.host.machine
    leading = QuorumState(machine.epoch + 1, leader_id=2)
    request = messages.begin_request(world.config, 1, leading)
    world.ports.driver.feed(METADATA_KEY, received(lambda response: None, request))
    assert (machine.role, machine.leader_id) == (Role.FOLLOWER, 2)


def answer_fetch(world: MetadataWorld, records: bytes, high_watermark: int) -> None:
    """The leader answers what it was asked last with these batches."""
    to, request = world.ports.sent[-1]
    asked = request.topics[0].partitions[0].fetch_offset
    bounds = inputs.FetchBounds(
        ErrorCode.NONE, 2, world.host.machine.epoch, asked, asked + 1, high_watermark
    )
    response = messages.fetch_response(bounds, records)
    world.ports.driver.feed(METADATA_KEY, answered(to, request, response))


def sound_bytes(world: MetadataWorld) -> list[bytes]:
    """The batches as they are on the disk."""
    content = memoryview(world.disk.read(SEGMENT))
    return [bytes(content[at : at + one.size_bytes]) for at, one in iter_headers(content)]


def test_a_log_that_is_whole_again_is_no_promise_any_more():
    world = one_of_three()
    batches = sound_bytes(world)
    spoil(world, 3)
    world.start()
    follow(world)
    for number in range(4, len(batches)):
        assert promised_on_disk(world) == (1, END)
        answer_fetch(world, batches[number], 0)
    assert world.host.log.end_offset == END
    assert promised_on_disk(world) == (0, 0)
    world.ports.driver.feed(METADATA_KEY, TimerFired(inputs.FETCH))
    world.timers.advance(10_000)
    assert world.host.machine.role is Role.PROSPECTIVE, "it may stand again"


def test_a_record_of_a_later_epoch_keeps_the_promise_as_well():
    """Who was elected without our lost end had all that was committed, and it is not the same."""
    world = one_of_three()
    spoil(world, 3)
    world.start()
    follow(world)
    later = build_batch([(None, b"x")], base_offset=7, leader_epoch=world.host.machine.epoch)
    answer_fetch(world, later, 0)
    assert world.host.log.end_offset == 8
    assert promised_on_disk(world) == (0, 0)


def test_a_running_node_that_cuts_damage_off_promises_before_it_does():
    """The follower finds the damage before its leader's high watermark has passed the batch."""

    def running(crash_at: int | None) -> MetadataWorld:
        world = one_of_three(disk_seed=crash_at or 0)
        world.start()
        follow(world)
        world.disk.changes, world.disk.crash_at = 0, crash_at
        with contextlib.suppress(Crash):
            world.ports.driver.feed(METADATA_KEY, inputs.LogDamaged(7, "a test says so"))
        return world

    world = running(None)
    assert (world.host.log.end_offset, promised_on_disk(world)) == (7, (1, END))
    for crash_at in range(1, world.disk.changes + 1):
        world = running(crash_at)
        world.crash()
        world.start()
        log_end = world.host.log.end_offset
        assert log_end == END or world.host.machine.state.acknowledged_end == (1, END), crash_at


# -- batches that are sound and in the wrong place -------------------------------------------------


def world_of_segments() -> MetadataWorld:
    world = MetadataWorld(segment_bytes=500)
    world.start()
    world.create_topics(TOPICS * 3)
    world.log_dir.checkpoint_recovery_points()
    assert len(world.host.log.segment_base_offsets) > 5
    return world


def batches_of(world: MetadataWorld, base_offset: int) -> list[bytes]:
    """Those of a segment, as they are on the disk."""
    content = memoryview(world.disk.read(f"{LOG}/{base_offset:020d}.log"))
    return [bytes(content[at : at + one.size_bytes]) for at, one in iter_headers(content)]


def misplace(world: MetadataWorld, segment: int, batch: bytes | None = None) -> int:
    """The second batch of a segment, or `batch`, stands where the first one was; that one's offset.

    Batches of topics with short names are of one size, so what follows is where it was.
    """
    base_offset = world.host.log.segment_base_offsets[segment]
    file = world.disk.open(f"{LOG}/{base_offset:020d}.log")
    file.write_at(batches_of(world, base_offset)[1] if batch is None else batch, 0)
    file.sync()
    return base_offset


@pytest.mark.parametrize("segment", [0, 2, -1])
def test_a_gap_is_damage_wherever_it_is(segment):
    """Other logs may have been compacted; of this one every record must be there."""
    world = world_of_segments()
    while len(batches_of(world, world.host.log.segment_base_offsets[-1])) < 2:
        world.create_topic()
    end_offset = world.host.log.end_offset
    offset = misplace(world, segment)
    world.crash(power=False)
    world.voters = THREE
    world.start()
    assert world.host.log.end_offset == offset
    assert world.host.machine.state.acknowledged_end == (1, end_offset)


def test_the_only_voter_does_not_pass_a_gap_over():
    world = world_of_segments()
    misplace(world, 2)
    world.crash(power=False)
    with pytest.raises(DurableDataLostError, match="the only voter"):
        world.start()
    world.log_dir.close(clean=False)
    world.start(accept_loss=True)
    assert 0 < world.topics_in_image < TOPICS * 3


def test_a_gap_is_not_served():
    world = world_of_segments()
    offset = misplace(world, 2)
    bounds = inputs.FetchBounds(ErrorCode.NONE, 1, 1, offset, world.host.log.end_offset)
    bounds = replace(bounds, max_bytes=1 << 20)
    assert world.host.read(bounds) is None
    assert world.host.log.start_offset > offset, "a snapshot stands for it"


def test_a_batch_whose_header_is_lost_is_not_served():
    world = world_of_segments()
    offset = world.host.log.segment_base_offsets[2]
    bounds = inputs.FetchBounds(ErrorCode.NONE, 1, 1, offset, world.host.log.end_offset)
    bounds = replace(bounds, max_bytes=1 << 20)
    assert world.host.read(bounds)
    misplace(world, 2, bytes(100))
    assert world.host.read(bounds) is None
    assert world.host.log.start_offset > offset, "a snapshot stands for it"


def test_an_answer_that_waited_until_a_snapshot_took_the_batches_place_is_empty():
    """It ends no node: else a client that takes answers slowly could end every leader."""
    world = world_of_segments()
    offset = misplace(world, 2)
    bounds = inputs.FetchBounds(ErrorCode.NONE, 1, 1, 0, world.host.log.end_offset)
    bounds = replace(bounds, max_bytes=1 << 10)
    assert world.host.read(bounds), "it is there"
    assert (
        world.host.read(replace(bounds, offset=offset)) is None and world.host.log.start_offset > 0
    )
    assert world.host.read(bounds) == []


def test_a_batch_that_cannot_be_repaired_in_place_ends_the_node_and_the_next_start_cuts():
    world = world_of_segments()
    batches = {header.base_offset: bytes(batch) for header, batch in
               world.host.log.read_all_batches(0, world.host.log.end_offset)}  # fmt: skip
    end_offset = world.host.log.end_offset
    world.crash(power=False)
    world.voters = THREE
    world.start()
    follow(world)
    offset = world.host.log.segment_base_offsets[2]
    misplace(world, 2, bytes(len(batches[offset])) + b"reaches into the next one")
    log_dir_end = world.host.log.end_offset
    answer_fetch(world, b"", log_dir_end)  # all of it is committed
    assert world.host.machine.damaged_at == offset and not world.broken
    answer_fetch(world, b"", log_dir_end)  # what it had asked for before it read
    world.timers.advance(world.config.retry_backoff_ms)
    answer_fetch(world, batches[offset], log_dir_end)
    assert "the next start cuts it" in world.broken[0]
    world.crash()
    world.broken.clear()
    world.start()
    assert world.host.log.end_offset == offset
    assert world.host.machine.state.acknowledged_end == (1, end_offset)
