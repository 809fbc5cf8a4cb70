"""The parent's side of the bare-log suites: what was told, and whether what is found agrees."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fencepost.log.checkpoints import OffsetCheckpoint
from fencepost.log.disk import OsDisk
from fencepost.log.errors import LogError
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.wire.types import Uuid

from ..log.helpers import NOW_MS, contents
from ..log.story import CONFIG, Model, Story
from .conftest import Tally
from .life import TOPIC, Known

CHECKPOINTS: Final = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
)


@dataclass
class Rig:
    """A log directory at `path`, what is known of it, and the figures that are kept."""

    path: str
    tally: Tally
    random: random.Random
    partitions: int = 4
    log_dir: LogDir = field(init=False)
    power: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        self.known = [Known() for _ in range(self.partitions)]
        format_log_dir(
            OsDisk(), self.path, cluster_id="c", node_id=1, directory_id=Uuid(bytes(15) + b"\1")
        )

    def note(self, event: tuple) -> None:
        """The writer has told something. AssertionError if it has failed."""
        if event[0] == "failed":
            raise AssertionError(f"the writer failed: {event[1]}")
        if event[0] in ("refused", "closed"):
            return
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

    def recover(self, *, power: bool) -> None:
        """Open everything after the writer's end and check it. AssertionError, LogError.

        With `power`, what had not been reported as durable may be gone.
        """
        points = [OffsetCheckpoint(OsDisk(), f"{self.path}/{name}").read() for name in CHECKPOINTS]
        self.log_dir = LogDir.open(OsDisk(), self.path)
        self.power = power
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
        story.log = log = self.log_dir.create(TOPIC, index, known.topic_id, CONFIG, wall_ms=NOW_MS)
        unsynced = after.end - after.durable_end
        self.tally.unsynced += unsynced
        self.tally.unsynced_lost += max(0, min(unsynced, after.end - log.end_offset))
        if not after.starts_over:
            promised = min(before.durable_end, after.durable_end)
            self.tally.acknowledged_lost += max(0, promised - log.end_offset)
        story.check_recovered(power=self.power)
        assert recovery_point <= log.end_offset
        files = Path(log.directory).glob("*.log")
        assert sum(file.stat().st_size for file in files) == log.size_bytes
        epoch = max(before.epoch, after.epoch)
        known.was = known.will_be = Model.of(log, epoch, min(start, log.start_offset))

    def compare(self, *, clean: bool) -> None:
        """Open everything again: it is what it was."""
        self.log_dir = LogDir.open(OsDisk(), self.path)
        assert self.log_dir.was_clean == clean
        for index, known in enumerate(self.known):
            if known.was is not None:
                log = self.log_dir.create(TOPIC, index, known.topic_id, CONFIG, wall_ms=NOW_MS)
                assert contents(log) == known.was.batches
                assert log.end_offset == known.was.end
