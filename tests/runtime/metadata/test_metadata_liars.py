"""A leader that offers snapshots which are none: what a follower keeps of them, and what it says.

The follower is a whole metadata log on a simulated disk; the leader is this test, which answers
what the follower asks.
"""

from __future__ import annotations

import errno
import logging
import struct
from typing import Any

import pytest

from fencepost.batch.control import build_control_batch
from fencepost.batch.header import HEADER_BYTES
from fencepost.batch.records import build_batch
from fencepost.log.errors import CorruptFileError
from fencepost.log.snapshots import SnapshotHeader, SnapshotStore
from fencepost.runtime.metadata.snapshot_fetching import FREE_KEPT_BYTES
from fencepost.sim.disk import SimDisk
from fencepost.wire.api.fetch import FetchRequest
from fencepost.wire.api.fetch_snapshot import FetchSnapshotRequest
from fencepost.wire.records.control import ControlType, LeaderChangeMessage
from fencepost.wire.records.metadata import encode_record

from .metadata_follower import EPOCH, OFFERED, PIECE_BYTES, Follower
from .metadata_world import LOG, topic_records


def sound_snapshot() -> bytes:
    """One with 25 topics."""
    disk = SimDisk(0)
    disk.mkdir(LOG)
    writer = SnapshotStore(disk, LOG).begin(OFFERED, SnapshotHeader(5), 5)
    writer.extend(encode_record(record) for n in range(25) for record in topic_records(n))
    writer.finish()
    return disk.read(writer.path)


SOUND = sound_snapshot()


def refused(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    return [text for text in texts if "rejecting the fetched snapshot" in text]


def claims_more(batch: bytes, more: int) -> bytes:
    """The batch with another length in its header."""
    (length,) = struct.unpack_from(">i", batch, 8)
    return batch[:8] + struct.pack(">i", length + more) + batch[12:]


OTHER_CONTROL = bytes(
    build_control_batch(
        [(ControlType.LEADER_CHANGE, LeaderChangeMessage(version=0))],
        timestamp_ms=5,
        base_offset=0,
        leader_epoch=3,
    )
)
LIES = {
    "garbage": (bytes(range(256)) * 8, 2048),
    "zeros": (bytes(2048), 2048),
    "records at first": (bytes(build_batch([(None, b"v" * 900)])), 1 << 20),
    "another control record": (OTHER_CONTROL + SOUND, len(OTHER_CONTROL) + len(SOUND)),
    "behind its beginning": (SOUND[HEADER_BYTES + 40 :], len(SOUND) - HEADER_BYTES - 40),
    "an older format": (SOUND[:16] + b"\x01" + SOUND[17:], len(SOUND)),
    "a corrupt header": (SOUND[:-1][:70] + b"\xff" + SOUND[71:], len(SOUND)),
    "a first batch larger than all": (claims_more(SOUND, len(SOUND)), len(SOUND)),
    "a first batch without end": (claims_more(SOUND, 1 << 30), 1 << 34),
    "one byte": (b"\x00", 1),
    "too small for header and footer": (SOUND, 2 * HEADER_BYTES - 1),
}


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_what_does_not_begin_like_a_snapshot_is_not_fetched(lie, caplog):
    data, size_bytes = LIES[lie]
    follower = Follower()
    follower.offer()
    follower.give(
        data[:PIECE_BYTES] if size_bytes >= PIECE_BYTES else data[:size_bytes], size_bytes
    )
    assert refused(caplog), "after its first piece"
    assert follower.world.checkpoints() == [], "and nothing of it is left"
    assert not follower.machine.is_electable or follower.machine.log.installing is None
    if follower.asks is not None:  # the next piece was asked for before it was looked at
        follower.give(data, size_bytes)
    assert follower.asks is None, "the leader is not asked again at once"
    follower.pass_pause()
    follower.offer()
    follower.give_all(SOUND)
    assert follower.world.host.snapshots.latest() == OFFERED, "one that is sound is taken"
    assert follower.world.topics_in_image == 25
    assert not follower.world.broken and not follower.world.ports.failures


def test_one_that_comes_byte_by_byte_is_looked_at_as_soon_as_that_can_be():
    follower = Follower()
    follower.offer()
    data = b"\x00" * 400
    for end in range(1, HEADER_BYTES):
        follower.give(data[:end], 1 << 30)
        assert isinstance(follower.asks, FetchSnapshotRequest)
    assert follower.world.checkpoints() == [f"{OFFERED}.checkpoint.part"]
    follower.give(data[:HEADER_BYTES], 1 << 30)
    assert follower.world.checkpoints() == []


def test_a_sound_one_may_come_byte_by_byte():
    follower = Follower()
    follower.offer()
    for end in range(1, len(SOUND) + 1):
        follower.give(SOUND[:end], len(SOUND))
    assert follower.world.host.snapshots.latest() == OFFERED


def test_one_that_there_is_no_room_for_is_not_begun(caplog):
    follower = Follower()
    disk = follower.world.disk
    disk.free = FREE_KEPT_BYTES + len(SOUND) - 1
    for _ in range(5):
        follower.offer()
        follower.give(SOUND, len(SOUND))
        assert follower.world.checkpoints() == []
        if follower.asks is not None:
            follower.give(SOUND, len(SOUND))
        assert follower.asks is None
        follower.pass_pause()
    (told,) = refused(caplog)
    assert str(len(SOUND)) in told and str(disk.free) in told and LOG in told
    disk.free += 1
    follower.offer()
    follower.give_all(SOUND)
    assert follower.world.host.snapshots.latest() == OFFERED


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_meanwhile_gives_back_what_was_taken(number, caplog):
    follower = Follower()
    follower.offer()
    follower.give(SOUND, len(SOUND))

    def full(operation: str, path: str, _: int) -> OSError | None:
        is_ours = operation == "write" and path.endswith(".part")
        return OSError(number, "no room") if is_ours else None

    follower.world.disk.fault = full
    follower.give(SOUND, len(SOUND))
    assert "no room" in refused(caplog)[0]
    assert follower.world.checkpoints() == []
    assert not follower.world.ports.failures, "and the log goes on"
    follower.world.disk.fault = None
    follower.give(SOUND, len(SOUND))
    follower.pass_pause()
    follower.offer()
    follower.give_all(SOUND)
    assert follower.world.topics_in_image == 25


def test_a_disk_that_refuses_ends_it():
    follower = Follower()
    follower.offer()

    def refuses(operation: str, path: str, _: int) -> OSError | None:
        is_ours = operation == "write" and path.endswith(".part")
        return OSError(errno.EIO, "broken") if is_ours else None

    follower.world.disk.fault = refuses
    follower.give(SOUND, len(SOUND))
    assert "broken" in follower.world.ports.failures[0]


# -- looked at in the background -----------------------------------------------------------------


def all_given() -> Follower:
    """One that has all pieces, and a thread that is about to look at them."""
    follower = Follower()
    follower.world.ports.waits_in_background = True
    follower.offer()
    follower.give_all(SOUND)
    assert len(follower.world.ports.in_background) == 1
    return follower


def run_background_work(follower: Follower) -> None:
    (work,) = follower.world.ports.in_background
    work()


def test_nothing_of_it_is_seen_while_it_is_looked_at():
    follower = all_given()
    world = follower.world
    assert follower.asks is None, "the log is left alone"
    assert world.host.snapshots.latest() is None and world.topics_in_image == 0
    assert (world.host.log.end_offset, world.images) == (0, [])
    run_background_work(follower)
    assert world.host.snapshots.latest() == OFFERED
    assert len(world.images) == 1 and world.topics_in_image == 25
    assert isinstance(follower.asks, FetchRequest), "and it goes on behind it"


@pytest.mark.parametrize("moves_on", [False, True])
def test_everybody_hears_what_is_different_from_the_image_that_there_was(moves_on):
    follower = all_given()
    host = follower.world.host
    if moves_on:  # what was committed before may be applied meanwhile
        host.image = host.image.standing_at(-1, EPOCH)
    before = host.image
    run_background_work(follower)
    (delta,) = follower.world.deltas
    assert delta.old is before and delta.new is host.image
    assert len(delta.created_topics) == len(delta.partitions) == 25


def test_it_may_take_longer_than_the_leader_may_be_silent():
    """Who cannot stand for election yet does not, however long it takes, nor asks anybody."""
    follower = all_given()
    epoch = follower.machine.epoch
    follower.world.timers.advance(10 * follower.world.config.fetch_timeout_ms)
    assert follower.machine.epoch == epoch
    run_background_work(follower)
    assert follower.world.topics_in_image == 25


def test_another_leader_may_come_meanwhile():
    follower = all_given()
    follower.is_led(EPOCH + 1)
    assert follower.machine.epoch == EPOCH + 1
    run_background_work(follower)
    assert follower.world.topics_in_image == 25
    assert isinstance(follower.asks, FetchRequest)


def test_a_stop_meanwhile_leaves_the_log_as_it_was():
    follower = all_given()
    (work,) = follower.world.ports.in_background
    follower.world.stop()
    work()
    assert follower.world.host.snapshots.latest() is None
    follower.world.start()
    assert follower.world.checkpoints() == [] and follower.machine.end_offset == 0


def test_a_disk_that_refuses_meanwhile_ends_it():
    follower = all_given()

    def refuses(operation: str, path: str, _: int) -> OSError | None:
        return OSError(errno.EIO, "broken") if operation == "rename" else None

    follower.world.disk.fault = refuses
    run_background_work(follower)
    assert "broken" in follower.world.ports.failures[0]


def test_a_log_that_cannot_be_emptied_ends_it(monkeypatch):
    follower = all_given()

    def fail(_: int) -> None:
        raise CorruptFileError(LOG, "cannot be emptied")

    monkeypatch.setattr(follower.world.host.log, "truncate_fully_and_start_at", fail)
    run_background_work(follower)
    assert "cannot be emptied" in follower.world.ports.failures[0]


def test_an_unforeseen_error_refuses_the_snapshot_and_ends_no_node(caplog, monkeypatch):
    follower = all_given()

    def fail(*_: Any) -> None:
        raise RecursionError("unforeseen")

    with monkeypatch.context() as patched:
        patched.setattr("fencepost.runtime.metadata.rules.load_snapshot", fail)
        run_background_work(follower)
    assert "unforeseen" in refused(caplog)[0]
    assert any(one.exc_info for one in caplog.records)
    follower.world.ports.waits_in_background = False
    follower.pass_pause()
    follower.offer()
    follower.give_all(SOUND)
    assert follower.world.topics_in_image == 25
