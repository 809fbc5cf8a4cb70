"""Replicas that stand still: when they count, and what is logged of them."""

from __future__ import annotations

import logging

import pytest

from fencepost.runtime.halted import (
    LASTING_MS,
    LOOK_EVERY_MS,
    NAMED_MAX,
    HaltCause,
    HaltedReplica,
    HaltedReplicas,
    in_lines,
)

AT_ONCE = {HaltCause.DIRECTORY_OFFLINE, HaltCause.ONLY_COPY_MISSING, HaltCause.LOG_IN_TWO_DIRS}


class World:
    """What two parts of a broker know, and a clock."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.first: list[HaltedReplica] = []
        self.second: list[HaltedReplica] = []
        self.halted = HaltedReplicas(lambda: self.first, [lambda: self.second], lambda: self.now_ms)

    def look_for(self, duration_ms: int) -> None:
        until_ms = self.now_ms + duration_ms
        while self.now_ms < until_ms:
            self.halted.look()
            self.now_ms += LOOK_EVERY_MS
        self.halted.look()


@pytest.fixture
def world(caplog: pytest.LogCaptureFixture) -> World:
    caplog.set_level(logging.INFO, "fencepost.runtime.halted")
    return World()


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    found = [(one.levelno, one.getMessage()) for one in caplog.records]
    caplog.clear()
    return found


@pytest.mark.parametrize("cause", sorted(AT_ONCE, key=lambda one: one.value))
def test_what_an_operator_must_end_counts_and_is_logged_at_once(world, caplog, cause):
    world.first = [HaltedReplica("t-0", cause, "broken")]
    assert world.halted.now() == world.first
    world.halted.look()
    assert lines(caplog) == [(logging.WARNING, "1 halted replica (t-0): broken")]


@pytest.mark.parametrize("cause", sorted(set(HaltCause) - AT_ONCE, key=lambda one: one.value))
def test_what_may_end_by_itself_counts_once_it_has_lasted(world, caplog, cause):
    world.second = [HaltedReplica("t-0", cause, "refused")]
    assert world.halted.now() == []
    world.look_for(LASTING_MS - LOOK_EVERY_MS)
    assert (world.halted.now(), lines(caplog)) == ([], [])
    world.look_for(LOOK_EVERY_MS)
    assert world.halted.now() == world.second
    assert lines(caplog) == [(logging.WARNING, "1 halted replica (t-0): refused")]


def test_what_ended_meanwhile_begins_from_the_start(world, caplog):
    halted = [HaltedReplica("t-0", HaltCause.NO_LEADER, "no leader")]
    world.second = halted
    world.look_for(LASTING_MS - LOOK_EVERY_MS)
    world.second = []
    world.look_for(0)
    world.second = halted
    world.look_for(LASTING_MS - LOOK_EVERY_MS)
    assert (world.halted.now(), lines(caplog)) == ([], [])


def test_a_line_is_written_once_for_all_of_one_reason_and_one_when_it_is_over(world, caplog):
    offline = [
        HaltedReplica(f"t-{number}", HaltCause.DIRECTORY_OFFLINE, "/d is offline")
        for number in range(NAMED_MAX + 2)
    ]
    world.first = offline
    world.look_for(LASTING_MS)
    (line,) = lines(caplog)
    assert line[1] == "7 halted replicas (t-0, t-1, t-2, t-3, t-4 and 2 more): /d is offline"
    assert list(in_lines(world.halted.now())) == [line[1]]
    world.first = [*offline, HaltedReplica("u-0", HaltCause.DIRECTORY_OFFLINE, "/d is offline")]
    world.halted.look()
    assert lines(caplog) == [(logging.WARNING, "1 halted replica (u-0): /d is offline")]
    world.first = offline[1:]
    world.halted.look()
    assert lines(caplog) == [(logging.INFO, "2 halted replicas (t-0, u-0): not halted any more")]
    world.first = []
    world.halted.look()
    assert lines(caplog)[0][1].endswith("not halted any more")
    assert world.halted.now() == []


def test_a_replica_that_stands_still_for_another_cause_is_not_over(world, caplog):
    world.second = [HaltedReplica("t-0", HaltCause.NO_LEADER, "no leader")]
    world.look_for(LASTING_MS)
    assert lines(caplog) == [(logging.WARNING, "1 halted replica (t-0): no leader")]
    world.second = [HaltedReplica("t-0", HaltCause.FETCHING_STOPPED, "refused")]
    world.look_for(LASTING_MS - LOOK_EVERY_MS)
    assert lines(caplog) == []
    world.look_for(LOOK_EVERY_MS)
    assert lines(caplog) == [(logging.WARNING, "1 halted replica (t-0): refused")]


def test_as_many_as_may_be_named_are_named_without_a_rest():
    names = [f"t-{number}" for number in range(NAMED_MAX)]
    halted = [HaltedReplica(name, HaltCause.NO_LEADER, "no leader") for name in names]
    assert list(in_lines(halted)) == ["5 halted replicas (t-0, t-1, t-2, t-3, t-4): no leader"]
