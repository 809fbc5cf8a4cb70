"""The bare log under power cuts: what was reported as durable is there, whole, in order, for good.

S87, S88, S94, S95; invariants I51 and I53.
"""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fencepost.log.checkpoints import OffsetCheckpoint
from fencepost.log.disk import Disk, OsDisk
from fencepost.log.errors import LogError
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.wire.types import Uuid

from ..log.helpers import NOW_MS, contents
from ..log.story import CONFIG, Model, Story
from .conftest import Tally
from .filesystem import Filesystem
from .life import TOPIC, DataLiar, Known, Liar, events, living

PARTITIONS = 4
EVENTS_MAX = 160
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
)


@dataclass
class Rig:
    """A log directory on a file system with a power switch, and what is known of it."""

    filesystem: Filesystem
    tally: Tally
    random: random.Random
    disk: Disk = field(default_factory=OsDisk)
    known: list[Known] = field(default_factory=lambda: [Known() for _ in range(PARTITIONS)])

    def __post_init__(self) -> None:
        self.path = str(self.filesystem.path / "data")
        format_log_dir(
            OsDisk(), self.path, cluster_id="c", node_id=1, directory_id=Uuid(bytes(15) + b"\1")
        )

    def cycle(self) -> None:
        """A life, a power cut, and everything looked at; AssertionError, LogError."""
        self.tally.cycles += 1
        self._live_until_cut()
        self._recover()
        if self.random.random() < 0.5:
            self.filesystem.cut_power()  # what was found and served must not be lost now (S88)
            self.log_dir.close(clean=False)
            self.filesystem.come_back()
            self._compare(clean=False)
        if self.random.random() < 0.5:
            self.log_dir.close()
            self.filesystem.come_back()
            self._compare(clean=True)
        self.log_dir.close(clean=self.random.random() < 0.5)

    def _live_until_cut(self) -> None:
        """Read what the writer tells; cut the power after a number of events, while it works."""
        left = self.random.randrange(1, EVENTS_MAX)
        with living(self.disk, self.path, self.known, self.random.getrandbits(60)) as (pid, told):
            for event in events(told):
                self._note(event)
                left -= 1
                if left == 0:
                    # Killed first: with the power gone a writer says nothing any more, but file
                    # systems that have been shut down may tell it that an unfinished sync is done.
                    os.kill(pid, signal.SIGKILL)
                    self.filesystem.cut_power()
        assert left <= 0, "the writer ended before the power was cut"
        self.filesystem.come_back()

    def _note(self, event: tuple) -> None:
        if event[0] == "failed":
            raise AssertionError(f"the writer failed: {event[1]}")
        known = self.known[event[1]]
        if event[0] == "begins":
            known.trail.append(event[2])
            return
        kind, _, model, topic_id, *acknowledged = event
        known.trail.append(
            kind + (f" {model.start}..{model.durable_end}..{model.end}" if model else " gone")
        )
        if known.was is None:
            known.topic_id = topic_id
        known.will_be = model
        if kind == "is":
            known.was = model
            self.tally.acknowledged += acknowledged[0]

    def _recover(self) -> None:
        points = [OffsetCheckpoint(OsDisk(), f"{self.path}/{name}").read() for name in CHECKPOINTS]
        self.log_dir = LogDir.open(OsDisk(), self.path)
        for index, known in enumerate(self.known):
            there = Path(f"{self.path}/{TOPIC}-{index}").is_dir()
            if known.was is None and known.will_be is None:
                assert not there, f"deleted partition {index} is back"
            elif known.was is not None and known.will_be is None and not there:
                known.was = None
            else:
                point, start = (at.get((TOPIC, index), 0) for at in points[:2])
                try:
                    self._check(index, known, point if there else 0, start)
                except (AssertionError, LogError) as error:
                    error.add_note(
                        f"partition {index}, points {point}, {start}: {list(known.trail)}"
                    )
                    raise

    def _check(self, index: int, known: Known, recovery_point: int, start: int) -> None:
        """Open one partition and compare it with what is known of it."""
        before = known.was or Model()
        after = known.will_be or before
        story = Story(self.random)
        story.before, story.model = before, after
        story.log = log = self.log_dir.create(TOPIC, index, known.topic_id, CONFIG, now_ms=NOW_MS)
        unsynced = after.end - after.durable_end
        self.tally.unsynced += unsynced
        self.tally.unsynced_lost += max(0, min(unsynced, after.end - log.end_offset))
        if not after.starts_over:
            promised = min(before.durable_end, after.durable_end)
            self.tally.acknowledged_lost += max(0, promised - log.end_offset)
        story.check_recovered(power=True)
        assert recovery_point <= log.end_offset
        files = Path(log.directory).glob("*.log")
        assert sum(file.stat().st_size for file in files) == log.size_bytes
        epoch = max(before.epoch, after.epoch)
        known.was = known.will_be = Model.of(log, epoch, min(start, log.start_offset))

    def _compare(self, *, clean: bool) -> None:
        for k in self.known:
            k.trail.append(f"compare {clean}")
        """Open everything again: it is what it was."""
        self.log_dir = LogDir.open(OsDisk(), self.path)
        assert self.log_dir.was_clean == clean
        for index, known in enumerate(self.known):
            if known.was is not None:
                log = self.log_dir.create(TOPIC, index, known.topic_id, CONFIG, now_ms=NOW_MS)
                assert contents(log) == known.was.batches
                assert log.end_offset == known.was.end


def test_nothing_that_was_reported_as_durable_is_lost(filesystem, tally, cycles):
    rig = Rig(filesystem, tally, random.Random(filesystem.kind))
    for number in range(cycles):
        try:
            rig.cycle()
        except Exception as error:
            error.add_note(f"{filesystem.kind}, cycle {number}")
            raise
    assert tally.acknowledged_lost == 0
    assert tally.acknowledged > 10 * cycles
    assert cycles < 50 or tally.unsynced_lost > 0, "the power was never really cut"


@pytest.mark.parametrize("liar", [Liar, DataLiar])
def test_a_disk_that_lies_about_syncs_is_found_out(filesystem, liar):
    """The tester tested: without the syncs the same check must find losses."""
    rig = Rig(filesystem, Tally("canary"), random.Random(filesystem.kind), disk=liar())
    for _ in range(20):
        try:
            rig.cycle()
        except (AssertionError, LogError) as error:
            if "the writer failed" in str(error):
                raise
            return
    pytest.fail("twenty power cuts on a disk that does not sync, and nothing was missed")
