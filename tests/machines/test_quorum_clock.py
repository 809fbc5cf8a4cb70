"""A wall clock that is set, forward or back: nothing becomes due by it, and nothing later."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.effects import Persisted, Reply, TimerFired
from fencepost.machines.quorum import FetchBounds, Role, inputs, received
from fencepost.wire.errors import ErrorCode

from .quorum_fixtures import CONFIG, EPOCH, ROLES, Bench, describe, fetch_request, leader
from .quorum_stages import asking

HOUR_MS = 3_600_000
JUMPS_MS = (HOUR_MS, -HOUR_MS, 1, -1)


def set_clock(bench: Bench, by_ms: int) -> None:
    """The next step is told the new time; it does not matter which that is."""
    bench.wall_ahead_ms += by_ms
    bench.step(Persisted(2))


def deadlines(bench: Bench) -> dict[str, int]:
    """How long until each timer is due."""
    armed = bench.machine.timers.deadlines
    return {name: deadline - bench.now_ms for name, deadline in armed.items()}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("by_ms", JUMPS_MS)
def test_every_timer_is_as_far_away_as_before(role: str, by_ms: int) -> None:
    bench = ROLES[role]()
    before = deadlines(bench)
    set_clock(bench, by_ms)
    assert deadlines(bench) == before
    assert bench.machine.role.value == role


@pytest.mark.parametrize("by_ms", JUMPS_MS)
def test_a_fetch_that_waits_is_answered_when_it_would_have_been(by_ms: int) -> None:
    bench = leader()
    asked = fetch_request(EPOCH, offset=3, last=EPOCH)
    effects = bench.step(received("t", asked))
    assert not [e for e in effects if isinstance(e, Reply)], "there is nothing to answer it with"
    set_clock(bench, by_ms)
    early = bench.step(TimerFired(inputs.FETCH_WAIT), CONFIG.fetch_max_wait_ms - 1)
    assert not [e for e in early if isinstance(e, Reply)]
    due = bench.step(TimerFired(inputs.FETCH_WAIT), 1)
    (answer,) = [e.value for e in due if isinstance(e, Reply)]
    assert isinstance(answer, FetchBounds) and answer.error is ErrorCode.NONE


@pytest.mark.parametrize("by_ms", JUMPS_MS)
def test_a_leader_is_deposed_by_silence_alone(by_ms: int) -> None:
    bench = leader()
    bench.step(received("t", fetch_request(EPOCH, offset=3, last=EPOCH)), after_ms=1_000)
    set_clock(bench, by_ms)
    bench.step(TimerFired(inputs.CHECK_QUORUM), CONFIG.check_quorum_timeout_ms - 1)
    assert bench.machine.role is Role.LEADER
    bench.step(TimerFired(inputs.CHECK_QUORUM), 1)
    assert bench.machine.role is Role.RESIGNED


def test_when_replicas_were_heard_of_is_told_by_the_new_clock() -> None:
    bench = leader()
    bench.step(received("t", fetch_request(EPOCH, offset=3, last=EPOCH)), after_ms=1_000)
    heard_ms = bench.wall_ms
    set_clock(bench, HOUR_MS)
    (reply,) = [e for e in bench.step(describe()) if isinstance(e, Reply)]
    voters: dict[int, Any] = {
        v.replica_id: v for v in reply.value.topics[0].partitions[0].current_voters
    }
    assert voters[3].last_fetch_timestamp == heard_ms + HOUR_MS
    assert voters[2].last_fetch_timestamp == -1, "never is never"


def test_a_voter_change_times_out_no_later() -> None:
    world = asking()
    left_ms = world.timers(1)[inputs.VOTER_CHANGE]
    world.node(1).change_clocks(jump_ms=HOUR_MS)
    assert world.timers(1)[inputs.VOTER_CHANGE] == left_ms
    assert world.changes == {}
