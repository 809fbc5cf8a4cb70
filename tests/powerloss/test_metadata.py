"""The metadata log under power cuts: votes, committed metadata, snapshots, and what they replace.

A lone voter in a process of its own creates topics, takes snapshots, drops prefixes of its log,
takes over snapshots as if from a leader, and starts again and again in new epochs. It tells what it
is about to do and what it has done. After a cut nothing may be missing that was told as done, and
nothing there that was never begun; and the epoch of `quorum-state` may not fall, or a voter could
vote twice in it.

S37, S42, S43; invariants I22 and I23.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import random
import signal
import struct
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import pytest

from fencepost.log.disk import Disk, OsDisk
from fencepost.log.errors import LogError
from fencepost.log.quorum_state import QuorumStateFile
from fencepost.log.snapshots import SnapshotHeader, SnapshotId, SnapshotStore
from fencepost.machines.effects import InstallSnapshot, StoreSnapshot
from fencepost.machines.image import apply_records
from fencepost.machines.image.records import image_values
from fencepost.runtime.metadata.snapshot_generation import SnapshotRules
from fencepost.sim.disk import SimDisk

from ..runtime.metadata.metadata_world import MetadataWorld, topic_records
from .conftest import Tally
from .filesystem import Filesystem
from .life import DataLiar, Liar, events

pytestmark = pytest.mark.timeout(3600)  # as many cycles as were asked for

EVENTS_MAX: Final = 120
_LENGTH: Final = struct.Struct(">I")
_PR_SET_PDEATHSIG: Final = 1


@dataclass
class Told:
    """What the voter has told its parent."""

    topics: int = 0
    will_be: int = 0
    epoch: int = 0


def world_on(disk: Disk, path: str) -> MetadataWorld:
    """A voter that takes snapshots and drops prefixes all the time."""
    return MetadataWorld(
        rules=SnapshotRules(max_bytes=1500, interval_ms=0),
        retention_bytes=4000,
        segment_bytes=1500,
        disk=disk,
        path=path,
    )


def snapshot_of(world: MetadataWorld, topics: int) -> tuple[SnapshotId, bytes]:
    """A leader's snapshot: this voter's image with more topics, farther on in the log."""
    image = world.host.image
    for number in range(world.topics, topics):
        image = apply_records(image, topic_records(number))
    machine = world.host.machine
    snapshot_id = SnapshotId(machine.end_offset + 50, machine.epoch)
    disk = SimDisk()
    disk.mkdir("/s")
    store = SnapshotStore(disk, "/s")
    writer = store.begin(snapshot_id, SnapshotHeader(0), 0)
    writer.extend(image_values(image))
    writer.finish()
    store.publish(writer)
    return snapshot_id, disk.read(store.path(snapshot_id))


class Voter:
    """The life of the voter; every step is told."""

    def __init__(self, disk: Disk, path: str, seed: int, out: BinaryIO) -> None:
        self.random = random.Random(seed)
        self.out = out
        self.world = world_on(disk, path)

    def tell(self, *event: Any) -> None:
        data = pickle.dumps(event)
        self.out.write(_LENGTH.pack(len(data)) + data)
        self.out.flush()

    def run(self) -> None:
        """Live until the parent cuts the power and kills it."""
        self.start()
        while True:
            draw = self.random.randrange(20)
            if draw == 0:
                self.world.stop()
                self.start()
            elif draw == 1:
                self.take_over()
            else:
                self.tell("will be", self.world.topics + 1)
                self.world.create_topic()
                self.tell("is", self.world.topics)

    def start(self) -> None:
        self.world.start()
        self.world.topics = self.world.topics_in_image
        self.tell("is", self.world.topics)
        self.tell("epoch", self.world.host.machine.epoch)

    def take_over(self) -> None:
        world = self.world
        topics = world.topics + self.random.randrange(1, 30)
        snapshot_id, data = snapshot_of(world, topics)
        keeper = world.host._keeper
        keeper._feed = lambda input_: None  # the log is changed under the machine: it starts again
        self.tell("will be", topics)
        for at in range(0, len(data), 500):
            keeper.store(StoreSnapshot(snapshot_id, at, data[at : at + 500], len(data)))
        keeper.install(InstallSnapshot(snapshot_id))
        self.tell("is", topics)
        world.stop()
        self.start()


@contextlib.contextmanager
def living(disk: Disk, path: str, seed: int) -> Iterator[tuple[int, BinaryIO]]:
    """A child process with a voter on `path`: its id, and the pipe on which it tells."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.close(reading)
            voter = Voter(disk, path, seed, os.fdopen(writing, "wb"))
            try:
                voter.run()
            except BaseException:  # noqa: BLE001 - whatever it is, the parent is to say so
                voter.tell("failed", traceback.format_exc())
        finally:
            os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as told:
            yield pid, told
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def live_until_cut(
    filesystem: Filesystem, disk: Disk, path: str, told: Told, draw: random.Random
) -> None:
    left = draw.randrange(1, EVENTS_MAX)
    with living(disk, path, draw.getrandbits(60)) as (pid, pipe):
        for kind, value in events(pipe):
            if kind == "failed":
                raise AssertionError(f"the voter failed: {value}")
            if kind == "epoch":
                told.epoch = value
            else:
                told.will_be = value
                if kind == "is":
                    told.topics = value
            left -= 1
            if left == 0:
                os.kill(pid, signal.SIGKILL)
                filesystem.cut_power()
    assert left <= 0, "the voter ended before the power was cut"
    filesystem.come_back()


def check(path: str, told: Told, tally: Tally) -> None:
    """Look at what the cut has left. AssertionError, LogError."""
    stored = QuorumStateFile(OsDisk(), f"{path}/__cluster_metadata-0").read()
    state = None if stored is None else stored.state
    assert told.epoch == 0 or (state is not None and state.leader_epoch >= told.epoch)
    world = world_on(OsDisk(), path)
    world.start()
    found = world.topics_in_image
    tally.acknowledged += told.topics
    tally.acknowledged_lost += max(0, told.topics - found)
    assert found in (told.topics, told.will_be)
    assert not [name for name in os.listdir(world.host.log.directory) if name.endswith(".part")]
    assert not world.broken and not world.ports.failures
    told.topics = told.will_be = found
    told.epoch = world.host.machine.epoch
    assert state is None or told.epoch > state.leader_epoch, "never twice in one epoch"
    world.stop()


def test_what_is_committed_and_promised_is_there(
    filesystem: Filesystem, tally: Tally, cycles: int
) -> None:
    draw, told = random.Random(filesystem.kind), Told()
    path = str(filesystem.path / "data")
    for number in range(cycles):
        tally.cycles += 1
        try:
            live_until_cut(filesystem, OsDisk(), path, told, draw)
            check(path, told, tally)
        except Exception as error:
            error.add_note(f"{filesystem.kind}, cycle {number}, {told}")
            raise
    assert tally.acknowledged_lost == 0
    assert tally.acknowledged > 10 * cycles


@pytest.mark.parametrize("liar", [Liar, DataLiar])
def test_a_disk_that_lies_about_syncs_is_found_out(
    filesystem: Filesystem, liar: type[Disk]
) -> None:
    """The tester tested: without the syncs the same check must find losses."""
    draw, told = random.Random(filesystem.kind), Told()
    path = str(filesystem.path / "data")
    for _ in range(20):
        try:
            live_until_cut(filesystem, liar(), path, told, draw)
            check(path, told, Tally("canary"))
        except (AssertionError, LogError) as error:
            if "the voter failed" in str(error):
                raise
            return
    pytest.fail("twenty power cuts on a disk that does not sync, and nothing was missed")
