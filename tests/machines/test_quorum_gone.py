"""A leader that is gone is succeeded by one voter at a time; at once, if its process has ended."""

from __future__ import annotations

import pytest

from fencepost.machines.effects import Reply, SetTimer, TimerFired
from fencepost.machines.quorum import RequestFailed, Role, inputs, messages, received
from fencepost.machines.quorum.role_changes import SUCCESSION_STEP_MS, place_behind
from fencepost.sim.by_hand import ByHand

from .quorum_fixtures import CONFIG, EPOCH, NODE, Bench, fetched, follower
from .quorum_stages import quorum

LEADER = 2


def refuse(bench: Bench, *, is_refused: bool = True) -> list[int | None]:
    """The fetch from the leader fails; what the fetch timer is set to by it, relative to now."""
    asked = bench.machine.requests.in_flight[LEADER][0]
    effects = bench.step(RequestFailed(LEADER, asked, is_refused))
    return [
        None if e.deadline_ms is None else e.deadline_ms - bench.now_ms
        for e in effects
        if isinstance(e, SetTimer) and e.name == inputs.FETCH
    ]


def test_the_next_in_the_ring_stands_first() -> None:
    bench = follower()
    (due,) = refuse(bench)
    others = [voter for voter in bench.machine.voters if voter != LEADER]
    ring = sorted(others, key=lambda voter: (voter < LEADER, voter))
    assert due == ring.index(NODE) * SUCCESSION_STEP_MS
    bench.step(TimerFired(inputs.FETCH), due or 0)
    assert bench.machine.role is Role.PROSPECTIVE
    assert bench.machine.epoch == EPOCH


def test_other_failures_wait_for_the_fetch_timeout() -> None:
    assert refuse(follower(), is_refused=False) == []


def test_it_is_once_in_an_epoch() -> None:
    bench = follower()
    assert len(refuse(bench)) == 1
    bench.step(TimerFired(inputs.RETRY), CONFIG.retry_backoff_ms)
    assert refuse(bench) == []


def test_others_are_granted_our_pre_vote() -> None:
    bench = follower()
    bench.step(fetched(bench))
    assert not granted(bench)
    refuse(bench)
    assert granted(bench)


def granted(bench: Bench) -> bool:
    """Whether node 3 would get our vote."""
    asked = messages.vote_request(CONFIG, NODE, 3, EPOCH, (4, 2), True)
    (reply,) = [e for e in bench.step(received("t", asked)) if isinstance(e, Reply)]
    said = messages.vote_response_of(reply.value)
    assert said is not None
    return said.vote_granted


@pytest.mark.parametrize("leader_id", [1, 2, 3])
def test_no_two_voters_have_the_same_place(leader_id: int) -> None:
    others = {1, 2, 3} - {leader_id}
    assert {place_behind(leader_id, node_id, (1, 2, 3)) for node_id in others} == {0, 1}


def fire_what_is_due(world: ByHand, latency_ms: int = 5) -> None:
    """The next timers, all that are due before a message can get from one node to another."""
    began_ms = world.world.now_ms

    def due_ms(node_id: int, name: str) -> int:
        left_ms = world.timers(node_id).get(name)
        return -1 if left_ms is None else world.world.now_ms + left_ms

    timers = sorted(
        (began_ms + left_ms, id_, name)
        for id_ in world.alive()
        for name, left_ms in world.timers(id_).items()
    )
    for deadline_ms, id_, name in timers:
        is_still_set = due_ms(id_, name) == deadline_ms
        if deadline_ms <= timers[0][0] + latency_ms and is_still_set:
            world.fire(id_, name)


@pytest.mark.parametrize("voters", [3, 4, 5])
def test_one_election_is_enough_when_a_leader_falls_silent(voters: int) -> None:
    """Its last words reach all in the same moment; if all stood in the same moment, none would
    win before the next election timeouts, which are random."""
    world = quorum(voters)
    world.start()
    world.run(world.has_converged)
    old = world.leader()
    assert old is not None
    epoch, silent_since_ms = world.machine(old).epoch, world.world.now_ms
    world.crash(old)  # and no connection is refused
    while world.leader() is None:
        fire_what_is_due(world)
        world.settle()
    new = world.leader()
    assert new is not None and world.machine(new).epoch == epoch + 1
    turns = (voters - 1) * SUCCESSION_STEP_MS
    assert world.world.now_ms <= silent_since_ms + CONFIG.fetch_timeout_ms + turns
