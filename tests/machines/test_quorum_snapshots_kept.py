"""Snapshots of the own log: starting on one, taking them, how long they stay."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.log.snapshots import SnapshotId
from fencepost.machines.effects import DropPrefix, TimerFired
from fencepost.machines.quorum import QuorumMachine, QuorumState, Role, Start, inputs
from fencepost.machines.quorum.snapshot_retention import LOOK_INTERVAL_MS

from .quorum_log import ListLog
from .snapshot_fixtures import BARE, CONFIG, EPOCH, NODE, Bench, keeping, leader, take, works

# -- starting, taking, retaining -----------------------------------------------------------------


def test_a_node_starts_on_its_snapshot() -> None:
    bench = Bench((1, 1, 2), snapshots=((3, 2),), start=3, state=QuorumState(2))
    machine = bench.machine
    assert (machine.high_watermark, machine.end_offset, machine.epoch) == (3, 3, 2)
    assert machine.log.end == (2, 3)


def lost_snapshot() -> ListLog:
    log = Bench((1, 1, 2), snapshots=((2, 1),), start=2).log
    log.snapshots.files.clear()
    return log


def old_snapshot() -> ListLog:
    log = Bench((1, 1, 2), snapshots=((1, 1), (2, 1)), start=2).log
    log.snapshots.put(SnapshotId(1, 1), [])
    del log.snapshots.files[SnapshotId(2, 1)]
    return log


def short_log() -> ListLog:
    log = Bench((1, 1, 2)).log
    log.snapshots.put(SnapshotId(4, 2), [])
    return log


def other_log() -> ListLog:
    log = Bench((1, 1, 2)).log
    log.snapshots.put(SnapshotId(3, 1), [])
    return log


@pytest.mark.parametrize("make", [lost_snapshot, old_snapshot, short_log, other_log])
def test_a_log_without_its_snapshot_is_no_start(make: Any) -> None:
    """KAFKA-14240; and what a crash has left half done is the shell's to finish first."""
    log = make()
    machine = QuorumMachine(NODE, (1, 2, 3), log, QuorumState(EPOCH), CONFIG)
    machine.step(Start([0]), 0, 0)
    assert machine.role is Role.FAILED


def test_the_newest_snapshot_stays_whatever_its_size() -> None:
    bench = leader(**BARE, **keeping(0))
    assert not works(take(bench, 3))
    assert works(take(bench, 4)) == [DropPrefix(4)]
    assert bench.log.snapshots.ids() == [SnapshotId(4, 3)]
    assert works(take(bench, 5)) == [DropPrefix(5)], "a follower that lags keeps nothing back"


def test_no_more_goes_than_must_for_the_size() -> None:
    bench = leader(**BARE, **keeping(-1))
    for end in (2, 3, 4):
        assert not works(take(bench, end))
    total = bench.log.size_bytes + sum(len(d) for d in bench.log.snapshots.files.values())
    smaller = leader(**BARE, **keeping(total - 1))
    for end in (2, 3):
        assert not works(take(smaller, end))
    assert works(take(smaller, 4)) == [DropPrefix(3)]
    assert not works(smaller.step(TimerFired(inputs.CLEAN))), "now it fits"


def test_one_goes_after_another_while_there_is_too_much() -> None:
    bench = leader(**BARE, **keeping(-1))
    for end in (2, 3, 4):
        take(bench, end)
    starved = Bench(config=replace(CONFIG, retention_bytes=0), snapshots=((2, 1), (3, 2), (4, 3)))
    assert DropPrefix(3) in works(starved.effects)
    assert works(starved.step(TimerFired(inputs.CLEAN))) == [DropPrefix(4)]
    assert not works(starved.step(TimerFired(inputs.CLEAN)))


def test_the_oldest_goes_when_its_time_has_come() -> None:
    bench = leader(**BARE, **keeping(-1, ms=30_000))
    assert not works(take(bench, 3, time_ms=bench.wall_ms))
    effects = take(bench, 4, time_ms=bench.wall_ms)
    assert not works(effects)
    assert bench.machine.timers.deadlines[inputs.CLEAN] == bench.now_ms + 30_001
    assert not works(bench.step(TimerFired(inputs.CLEAN), 30_000)), "not before its time"
    assert works(bench.step(TimerFired(inputs.CLEAN), 1)) == [DropPrefix(4)]
    bench.step(TimerFired(inputs.CLEAN))
    assert inputs.CLEAN not in bench.machine.timers.deadlines, "one snapshot has no time to go"


def test_the_age_of_a_snapshot_is_what_the_wall_clock_says() -> None:
    bench = leader(**BARE, **keeping(-1, ms=2 * LOOK_INTERVAL_MS))
    take(bench, 3, time_ms=bench.wall_ms)
    take(bench, 4, time_ms=bench.wall_ms)
    assert bench.machine.timers.deadlines[inputs.CLEAN] == bench.now_ms + LOOK_INTERVAL_MS
    bench.wall_ahead_ms -= LOOK_INTERVAL_MS
    assert not works(bench.step(TimerFired(inputs.CLEAN), 2 * LOOK_INTERVAL_MS)), "it is younger"
    bench.wall_ahead_ms += LOOK_INTERVAL_MS + 1
    assert works(bench.step(TimerFired(inputs.CLEAN), LOOK_INTERVAL_MS)) == [DropPrefix(4)]
