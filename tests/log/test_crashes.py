"""A crash at every change to the disk: what is found afterwards is whole, and all that was durable.

S87, S88, S94, S95; invariants I51 and I53.
"""

from __future__ import annotations

import pytest

from fencepost.sim.disk import Crash

from .crash_world import World, count_changes, run_until_crash
from .helpers import contents

OPERATIONS = 45


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("power", [True, False], ids=["power", "process"])
def test_a_crash_at_every_change(seed: int, power: bool):
    assert_crashes_survived(seed, power, range(1))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 30))
@pytest.mark.parametrize("power", [True, False], ids=["power", "process"])
def test_a_crash_at_every_change_of_longer_lives(seed: int, power: bool):
    assert_crashes_survived(seed, power, range(2 if power else 1))


@pytest.mark.parametrize("seed", range(12))
def test_one_crash_after_the_other(seed: int):
    """What one crash hides, the next may bring back: bytes behind the end of a file."""
    world = World(seed, disk_seed=seed)
    world.start()
    for number in range(40):
        world.disk.crash_at = world.disk.changes + world.random.randrange(1, 90)
        try:
            world.run(10_000)
        except Crash:
            world.recover_and_check(power=number % 5 != 4)


def test_a_log_that_was_found_empty_stays_so():
    """Truncated to nothing is not as created: the records would come back with a power loss."""
    for disk_seed in range(150):
        for crash_after in range(1, 6):
            world = World(1, disk_seed)
            world.start()
            world.append()
            world.disk.crash_at = world.disk.changes + crash_after
            try:
                world.log.truncate_to(0)
            except Crash:
                world.disk.process_death()
                world.start()
                found = contents(world.log)
                world.disk.power_loss()
                world.start()
                assert contents(world.log) == found


def assert_crashes_survived(seed: int, power: bool, disk_seeds: range) -> None:
    changes = count_changes(seed, OPERATIONS)
    assert changes > OPERATIONS
    crashes = 0
    for crash_at in range(1, changes + 1):
        for disk_seed in disk_seeds:
            world = run_until_crash(seed, OPERATIONS, crash_at, disk_seed * 7919 + crash_at)
            if world is None:
                continue
            crashes += 1
            try:
                world.recover_and_check(power=power)
            except Exception as error:
                error.add_note(f"seed {seed}, crash at {crash_at}, disk seed {disk_seed}")
                raise
    assert crashes > changes / 2
