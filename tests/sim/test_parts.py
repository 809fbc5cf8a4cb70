"""The parts of a world, one by one: tape, clock, queue, disk, trace."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencepost.sim.clock import EPOCH_MS, PAR, SimClock
from fencepost.sim.disk import SimDisk
from fencepost.sim.queue import Event, EventQueue
from fencepost.sim.tape import Tape
from fencepost.sim.trace import Trace

# -- the tape --------------------------------------------------------------------------------------


def test_a_seed_draws_the_same_numbers_again_and_another_seed_others() -> None:
    first, second = Tape(7).lane("network"), Tape(7).lane("network")
    drawn = [first.pick(1_000) for _ in range(50)]
    assert drawn == [second.pick(1_000) for _ in range(50)]
    other = Tape(8).lane("network")
    assert drawn != [other.pick(1_000) for _ in range(50)]


def test_lanes_do_not_disturb_each_other() -> None:
    alone, beside = Tape(7), Tape(7)
    beside.lane("faults").pick(10)
    assert alone.lane("network").pick(1 << 30) == beside.lane("network").pick(1 << 30)


@given(seed=st.integers(0, 1 << 40), n=st.integers(1, 1 << 31))
def test_numbers_are_below_n(seed: int, n: int) -> None:
    lane = Tape(seed).lane("any")
    assert all(0 <= lane.pick(n) < n for _ in range(5))


def test_a_seed_draws_what_it_drew_in_the_first_version() -> None:
    """Seeds are bug reports; a change of how they are drawn makes all old ones worthless."""
    lane = Tape(1).lane("network")
    assert [lane.pick(1_000) for _ in range(5)] == FIRST_DRAWS


FIRST_DRAWS = [175, 544, 498, 375, 896]


def test_a_replay_gives_back_what_was_recorded_and_then_zeros() -> None:
    first = Tape(3)
    drawn = [first.lane("a").pick(9) for _ in range(6)]
    again = Tape(recorded=first.values())
    assert [again.lane("a").pick(9) for _ in range(6)] == drawn
    assert [again.lane("a").pick(9) for _ in range(3)] == [0, 0, 0]
    assert again.lane("b").pick(5) == 0


def test_a_recorded_number_that_is_too_large_counts_as_the_largest() -> None:
    assert Tape(recorded={"a": [7]}).lane("a").pick(3) == 2


def test_zero_is_no_fault_and_nothing_is_drawn_where_there_cannot_be_one() -> None:
    lane = Tape(recorded={}).lane("a")
    assert not lane.chance(999)
    assert lane.values == [0]
    assert not lane.chance(0)
    assert lane.values == [0]
    assert Tape(recorded={"a": [999]}).lane("a").chance(1)


def test_a_recording_ends_with_its_last_number_that_is_not_zero() -> None:
    tape = Tape(recorded={"a": [0, 2, 0]})
    for _ in range(5):
        tape.lane("a").pick(5)
    tape.lane("b").pick(5)
    assert tape.values() == {"a": [0, 2]}


# -- clocks ----------------------------------------------------------------------------------------


def test_a_clock_that_is_right_shows_world_time() -> None:
    clock = SimClock()
    assert clock.now_ms(0) == EPOCH_MS
    assert clock.now_ms(1_999) == EPOCH_MS + 1


def test_a_fast_clock_and_a_jump() -> None:
    clock = SimClock()
    clock.set_rate(PAR * 10, 1_000_000)
    assert clock.now_ms(1_000_000) == EPOCH_MS + 1_000
    assert clock.now_ms(2_000_000) == EPOCH_MS + 11_000
    clock.jump(-3_600_000, 2_000_000)
    assert clock.now_ms(2_000_000) == EPOCH_MS + 11_000 - 3_600_000


@given(
    rate=st.integers(PAR // 20, PAR * 20),
    now_us=st.integers(0, 10**9),
    wait_ms=st.integers(-5_000, 100_000),
)
def test_a_deadline_is_met_and_not_early(rate: int, now_us: int, wait_ms: int) -> None:
    clock = SimClock(rate=rate)
    deadline_ms = clock.now_ms(now_us) + wait_ms
    at_us = clock.world_us_of(deadline_ms, now_us)
    assert clock.now_ms(at_us) >= deadline_ms
    assert at_us == now_us or clock.now_ms(at_us - 1) < deadline_ms


# -- the queue -------------------------------------------------------------------------------------


class Someone:
    incarnation = 1
    is_up = True


def event(at_us: int, incarnation: int = -1, node: Any = None) -> Event:
    return Event(at_us, "test", lambda: None, node, incarnation, None)


def test_events_come_in_the_order_of_time_and_equals_as_drawn() -> None:
    queue = EventQueue(Tape(recorded={"schedule": [0, 5, 1]}).lane("schedule"))
    late, second, first = (queue.push(event(at)) for at in (9, 3, 3))
    assert [queue.pop() for _ in range(3)] == [first, second, late]
    assert queue.pop_until(None) is None


def test_benign_order_is_first_come_first_served() -> None:
    queue = EventQueue(Tape(recorded={}).lane("schedule"))
    events = [queue.push(event(5)) for _ in range(4)]
    assert [queue.pop() for _ in range(4)] == events


def test_cancelled_events_and_those_of_other_incarnations_do_not_come() -> None:
    queue = EventQueue(Tape(recorded={}).lane("schedule"))
    someone = Someone()
    queue.push(event(1)).cancel()
    queue.push(event(2, incarnation=0, node=someone))
    due = queue.push(event(3, incarnation=1, node=someone))
    assert list(queue.due()) == queue.in_order() == [due]
    assert queue.pop() is due


def test_an_event_can_be_taken_out_of_the_middle() -> None:
    queue = EventQueue(Tape(recorded={}).lane("schedule"))
    first, second, third = (queue.push(event(at)) for at in (1, 2, 3))
    queue.take(second)
    assert [queue.pop(), queue.pop()] == [first, third]


# -- the trace -------------------------------------------------------------------------------------


def test_a_fingerprint_is_of_all_lines_in_their_order() -> None:
    def of(*lines: str) -> str:
        trace = Trace()
        for line in lines:
            trace.note(line)
        return trace.fingerprint()

    assert of("a", "b") == of("a", "b")
    assert len({of("a", "b"), of("b", "a"), of("ab"), of("a"), of()}) == 5
    assert of(*map(str, range(2_000))) == of(*map(str, range(2_000)))


def test_asking_for_the_fingerprint_changes_nothing() -> None:
    asked, unasked = Trace(), Trace()
    for trace in (asked, unasked):
        trace.note("a")
    asked.fingerprint()
    for trace in (asked, unasked):
        trace.note("b")
    assert asked.fingerprint() == unasked.fingerprint()


# -- the disk, as far as tests/log does not try it -------------------------------------------------


def disk_with(*pieces: bytes) -> SimDisk:
    disk = SimDisk()
    file = disk.open("/file", create=True)
    file.write_at(b"safe", 0)
    file.sync()
    disk.sync_dir("/")
    position = 4
    for piece in pieces:
        file.write_at(piece, position)
        position += len(piece)
    return disk


@pytest.mark.parametrize(
    ("changes", "torn", "left"),
    [(0, None, b"safe"), (1, None, b"safeone"), (2, None, b"safeonetwo"), (2, 1, b"safeonet")],
)
def test_a_power_loss_that_is_told_what_survives(
    changes: int, torn: int | None, left: bytes
) -> None:
    disk = disk_with(b"one", b"two")
    disk.lose_power_keeping(changes, torn)
    assert disk.read("/file") == left


def test_a_power_loss_whose_draws_are_all_zero_loses_nothing() -> None:
    disk = SimDisk(draw=lambda n: 0)
    file = disk.open("/file", create=True)
    file.write_at(b"never synced", 0)
    disk.power_loss()
    assert disk.read("/file") == b"never synced"


def test_a_sync_that_failed_has_lost_what_it_was_to_save() -> None:
    disk = disk_with(b"one")
    file = disk.open("/file")

    def fault(operation: str, path: str, count: int) -> OSError | None:
        disk.fault = None
        return OSError(errno.EIO, "no", path) if operation == "sync" else None

    disk.fault = fault
    with pytest.raises(OSError, match="no"):
        file.sync()
    file.sync()  # and is told that all is well
    assert disk.read("/file") == b"safeone"
    disk.lose_power_keeping(9)
    assert disk.read("/file") == b"safe"
