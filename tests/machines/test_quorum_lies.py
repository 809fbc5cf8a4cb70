"""What anybody can send to a controller must not end it, nor take an epoch from the quorum."""

from __future__ import annotations

import pytest

from fencepost.machines.effects import Fail, TimerFired
from fencepost.machines.quorum import QuorumState, Role, inputs, messages, received
from fencepost.machines.quorum.messages import vote_request

from .test_quorum_table import (
    CONFIG,
    EPOCH,
    LATER,
    NODE,
    Bench,
    answer_to_vote,
    begin,
    leader,
    prospective,
    unattached,
    vote,
)

# -- who is said to lead -----------------------------------------------------------------------


def test_a_leader_that_is_said_to_lead_a_later_epoch_stands_again_behind_it() -> None:
    bench = leader()
    effects = bench.step(answer_to_vote(bench, False, EPOCH + 1, NODE))
    assert not [effect for effect in effects if isinstance(effect, Fail)]
    assert bench.machine.role is Role.UNATTACHED and bench.machine.leader_id == -1
    bench.step(TimerFired(inputs.ELECTION), LATER)
    assert bench.machine.role is Role.PROSPECTIVE
    bench.step(answer_to_vote(bench, True, EPOCH + 1))
    assert bench.machine.role is Role.PROSPECTIVE, "that answer was to an older question"


def test_an_epoch_it_may_have_led_gets_no_second_vote_and_no_second_leader() -> None:
    bench = prospective()
    bench.step(answer_to_vote(bench, False, EPOCH + 1, NODE))
    state = bench.machine.state
    assert state == QuorumState(EPOCH + 1, -1, NODE, CONFIG.directory_id)
    for machine_of in (bench, Bench(state)):
        assert machine_of.machine.role is Role.UNATTACHED, "and so it is after a restart"
        machine_of.step(vote(EPOCH + 1, log=(EPOCH, 9)))
        assert machine_of.machine.state == state, "the vote is not given away"
    bench.step(begin(EPOCH + 1, leader_id=3))
    assert (bench.machine.role, bench.machine.leader_id) == (Role.FOLLOWER, 3)


@pytest.mark.parametrize("ids", [(-77, -1), (-2, 1), (1, -2)])
def test_a_state_that_could_not_be_read_again_is_not_made(ids: tuple[int, int]) -> None:
    with pytest.raises(AssertionError):
        QuorumState(EPOCH, *ids)


@pytest.mark.parametrize("leader_id", [-77, -2])
def test_no_answer_names_a_leader_that_no_node_can_be(leader_id: int) -> None:
    for epoch in (EPOCH, EPOCH + 1):
        bench = prospective()
        before = bench.machine.state
        bench.step(answer_to_vote(bench, False, epoch, leader_id))
        assert (bench.machine.role, bench.machine.state) == (Role.PROSPECTIVE, before)


@pytest.mark.parametrize("candidate_id", [-77, -1])
def test_no_request_comes_from_a_node_that_cannot_be(candidate_id: int) -> None:
    bench = unattached()
    before = bench.machine.state
    asked = vote_request(CONFIG, NODE, candidate_id, EPOCH + 1, (4, 2), False)
    bench.step(received("t", asked))
    for claim in (
        messages.begin_request(CONFIG, NODE, before),
        messages.end_request(CONFIG, before, ()),
    ):
        said = claim.topics[0].partitions[0]
        said.leader_id, said.leader_epoch = candidate_id, EPOCH + 1
        bench.step(received("t", claim))
    assert bench.machine.state == before
