"""A crash, or an error of the disk, while what a crash has left is recovered."""

from __future__ import annotations

import errno

import pytest

from fencepost.log import scanning
from fencepost.sim.disk import Crash

from .crash_world import World, count_changes, run_until_crash

pytestmark = pytest.mark.slow

OPERATIONS = 45
KINDS = ["write", "read", "sync", "truncate", "unlink", "rename"]


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most batches do not fit into what is read at once."""
    monkeypatch.setattr(scanning, "_CHUNK_BYTES", 100)


def stopped(seed: int, crash_at: int, power: bool) -> World | None:
    """A world after a crash, with nothing recovered; the same at every call."""
    world = run_until_crash(seed, OPERATIONS, crash_at, crash_at)
    if world is not None and power:
        world.disk.power_loss()
    elif world is not None:
        world.disk.process_death()
    return world


def assert_crashes_survived(seed: int, power: bool, points: int) -> None:
    changes, crashes = count_changes(seed, OPERATIONS), 0
    for crash_at in range(1, changes + 1, max(1, changes // points)):
        change = 0
        while (world := stopped(seed, crash_at, power)) is not None:
            change += 1
            world.disk.crash_at = world.disk.changes + change
            try:
                world.start()
                break
            except Crash:
                crashes += 1
            world.recover_and_check(power=power or change % 2 == 0)
    assert crashes > points


def assert_errors_survived(seed: int, power: bool, points: int) -> None:
    changes, errors = count_changes(seed, OPERATIONS), 0
    for crash_at in range(1, changes + 1, max(1, changes // points)):
        for kind in KINDS:
            nth, has_failed = 0, True
            while has_failed and (world := stopped(seed, crash_at, power)) is not None:
                nth += 1
                has_failed = fails(world, kind, nth)
                errors += has_failed
                world.recover_and_check(power=power or nth % 2 == 0)
    assert errors > points


def fails(world: World, kind: str, nth: int) -> bool:
    """Whether so many of these operations come when the log is opened. From that one on the disk
    fails them: OSError alone may come of it, with no file left open."""
    seen = 0

    def fault(operation: str, path: str, count: int) -> OSError | None:
        nonlocal seen
        if operation != kind or "/t-0/" not in path:
            return None
        seen += 1
        if seen < nth:
            return None
        return OSError(errno.ENOSPC if kind == "write" else errno.EIO, "injected")

    world.disk.fault = fault
    try:
        world.start()
    except OSError:
        assert seen >= nth and world.disk.open_files == 0
    world.disk.fault = None
    return seen >= nth


@pytest.mark.parametrize("power", [True, False], ids=["power", "process"])
def test_a_crash_at_every_change_of_a_recovery(power: bool) -> None:
    assert_crashes_survived(0, power, 8)


@pytest.mark.parametrize("power", [True, False], ids=["power", "process"])
def test_an_error_at_every_operation_of_a_recovery(power: bool) -> None:
    assert_errors_survived(0, power, 5)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("power", [True, False], ids=["power", "process"])
def test_recoveries_of_more_lives(seed: int, power: bool) -> None:
    assert_crashes_survived(seed, power, 20)
    assert_errors_survived(seed, power, 8)
