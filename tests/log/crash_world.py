"""A log directory on a disk that may stop at any moment; see `story` for what must survive."""

from __future__ import annotations

import random

from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.sim.disk import Crash, SimDisk
from fencepost.wire.types import Uuid

from .helpers import NOW_MS, contents
from .story import CONFIG, Model, Story

TOPIC_ID = Uuid(bytes(range(16)))


class World(Story):
    """A story on a simulated disk; `seed` fixes the operations, `disk_seed` what a crash does."""

    def __init__(self, seed: int, disk_seed: int = 0) -> None:
        super().__init__(random.Random(seed))
        self.disk = SimDisk(disk_seed)
        format_log_dir(
            self.disk, "/data", cluster_id="c", node_id=1, directory_id=Uuid(bytes(15) + b"\1")
        )
        self.log_dir: LogDir

    def start(self) -> None:
        """Open the directory and the log in it."""
        self.log_dir = LogDir.open(self.disk, "/data")
        self.log = self.log_dir.create("t", 0, TOPIC_ID, CONFIG, wall_ms=NOW_MS)

    def run(self, count: int) -> None:
        """Do `count` random operations; Crash when the disk stops."""
        operations = (
            [self.append] * 12
            + [self.flush] * 3
            + [self.group_flush] * 2
            + [self.checkpoint] * 2
            + [self.new_epoch] * 2
            + [self.truncate, self.advance, self.retain, self.delete_files, self.roll]
            + [self.start_over, self.restart]
        )
        for _ in range(count):
            self.step(self.random.choice(operations))

    def checkpoint(self) -> None:
        self.model.note_checkpoint()
        self.log_dir.checkpoint({("t", 0): self.model.durable_end})

    def restart(self) -> None:
        self.model.checkpointed_start = self.model.start
        self.log_dir.close(high_watermarks={("t", 0): self.model.end})
        self.model.durable_end = self.model.end
        self.start()
        assert self.log_dir.was_clean
        self.check_equal(self.model)

    # ---- what must hold

    def recover_and_check(self, *, power: bool) -> None:
        """The machine (or only the process) has stopped: open the log again and look at it."""
        if power:
            self.disk.power_loss()
        else:
            self.disk.process_death()
        self.start()
        self.check_recovered(power=power)
        found = contents(self.log)
        # What was found is durable now (S88).
        self.disk.power_loss()
        self.start()
        assert contents(self.log) == found
        self.model = self.before = Model.of(self.log, self.model.epoch)


def count_changes(seed: int, operations: int) -> int:
    """How many changes to the disk a run makes when nothing stops it."""
    world = World(seed)
    world.start()
    world.disk.crash_at = None
    before = world.disk.changes
    world.run(operations)
    return world.disk.changes - before


def run_until_crash(seed: int, operations: int, crash_at: int, disk_seed: int) -> World | None:
    """The world, stopped at the `crash_at`-th change; None if it came to its end before."""
    world = World(seed, disk_seed)
    world.start()
    world.disk.crash_at = world.disk.changes + crash_at
    try:
        world.run(operations)
    except Crash:
        return world
    return None
