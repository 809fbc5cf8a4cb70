"""What anybody can send to a controller must not end it, nor take an epoch from the quorum."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.batch.records import build_batch
from fencepost.machines.effects import Fail, Persisted, TimerFired
from fencepost.machines.quorum import (
    FetchBounds,
    QuorumState,
    Role,
    answered,
    fetch_response,
    inputs,
    messages,
    received,
)
from fencepost.machines.quorum.epochs import EPOCH_STEP_MAX, EPOCHS_KEPT_BACK
from fencepost.machines.quorum.messages import vote_request
from fencepost.machines.quorum.state import EPOCH_MAX
from fencepost.wire.errors import ErrorCode

from .quorum_fixtures import (
    CONFIG,
    EPOCH,
    LATER,
    NODE,
    Bench,
    answer_to_vote,
    begin,
    end,
    fetched,
    follower,
    leader,
    prospective,
    resigned,
    unattached,
    vote,
)
from .quorum_stages import quorum

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


# -- the last epochs there are -----------------------------------------------------------------

FREE = EPOCH_MAX - EPOCHS_KEPT_BACK
HALF_MS = CONFIG.election_timeout_ms // 2


def flooded(bench: Bench, messages_: int, step: int, every_ms: int = 0) -> int:
    """Votes for epochs further and further up; how many of those kept back are gone."""
    for _ in range(messages_):
        epoch = max(bench.machine.epoch, FREE) + step
        bench.step(vote(epoch, log=(0, 0)), after_ms=every_ms)
    return max(0, bench.machine.epoch - FREE)


def test_a_flood_of_votes_gets_one_of_the_last_epochs_per_half_election_timeout() -> None:
    bench = unattached()
    assert flooded(bench, 1, 0) == 0 and bench.machine.epoch == FREE, "below, all are believed"
    assert flooded(bench, 50, 1000) == 0
    assert flooded(bench, 50, 1) == 1
    assert flooded(bench, 10, 1, every_ms=HALF_MS // 5) == 3
    assert flooded(bench, 10, 1, every_ms=HALF_MS) == 13


def test_a_node_that_slept_believes_as_many_as_there_can_have_been_and_no_more() -> None:
    bench = unattached()
    assert flooded(bench, 1, 20, every_ms=20 * HALF_MS) == 20
    assert flooded(bench, 1, EPOCH_STEP_MAX + 1, every_ms=LATER) == 20
    assert flooded(bench, 1, EPOCH_STEP_MAX, every_ms=0) == 20 + EPOCH_STEP_MAX
    assert flooded(bench, 50, 1) == 20 + EPOCH_STEP_MAX


def test_a_clock_that_is_set_does_not_give_epochs_away() -> None:
    bench = unattached()
    flooded(bench, 3, 1)
    bench.wall_ahead_ms += LATER
    assert flooded(bench, 3, 1) == 1


def test_elections_go_on_among_the_last_epochs() -> None:
    bench = Bench(QuorumState(FREE + 7))
    for _ in range(20):
        bench.step(TimerFired(inputs.ELECTION), LATER)
        before = bench.machine.epoch
        asked = messages.vote_request(CONFIG, 3, NODE, before, (4, 2), True)
        answer = messages.vote_response(ErrorCode.NONE, -1, before, True)
        bench.step(answered(3, asked, answer))
        assert (bench.machine.role, bench.machine.epoch) == (Role.CANDIDATE, before + 1)


def test_a_node_whose_epoch_is_the_last_there_is_says_so_and_does_not_start() -> None:
    bench = Bench(QuorumState(EPOCH_MAX))
    assert bench.machine.role is Role.FAILED
    assert "no leader can be elected" in repr(bench.machine)
    assert Bench(QuorumState(EPOCH_MAX - 1)).machine.role is Role.UNATTACHED


# -- what is answered at once, and leads nowhere -----------------------------------------------


def asked_again(bench: Bench, input_: Any, to: int) -> bool:
    """Whether the answer is followed by another question at once; by one after a pause it is."""
    at_once = [e for e in bench.step(input_) if getattr(e, "to", None) == to]
    if not at_once:
        later = bench.step(TimerFired(inputs.RETRY), CONFIG.retry_backoff_ms)
        assert bench.sent(later, to)
    return bool(at_once)


def test_an_answer_that_brings_nothing_before_its_time_is_followed_by_a_pause() -> None:
    bench = follower()
    assert asked_again(bench, fetched(bench, high_watermark=1), 2), "it is higher than before"
    assert not asked_again(bench, fetched(bench, high_watermark=1), 2)
    bench.now_ms += CONFIG.fetch_max_wait_ms
    assert asked_again(bench, fetched(bench, high_watermark=1), 2)
    bench.now_ms += CONFIG.fetch_max_wait_ms - 1
    assert not asked_again(bench, fetched(bench, high_watermark=1), 2)


@pytest.mark.parametrize(("epoch", "leader_id"), [(EPOCH_MAX, 2), (EPOCH, -77)])
def test_what_is_not_believed_is_followed_by_a_pause(epoch: int, leader_id: int) -> None:
    bench = prospective()
    asked = bench.machine.requests.in_flight[3][0]
    answer = messages.vote_response(ErrorCode.NONE, leader_id, epoch, True)
    assert not asked_again(bench, answered(3, asked, answer), 3)
    bench = leader()
    asked = bench.machine.requests.in_flight[3][0]
    said = messages.begin_response(ErrorCode.NONE, leader_id, epoch)
    assert not asked_again(bench, answered(3, asked, said), 3)


def test_invalid_batches_are_reported_with_their_epoch() -> None:
    bench = follower()
    assert bench.machine.invalid_batch_epoch == -1
    asked = bench.machine.requests.in_flight[2][0]
    corrupt = build_batch([(None, b"v")], base_offset=2, leader_epoch=EPOCH)
    corrupt[-1] ^= 1
    bounds = FetchBounds(ErrorCode.NONE, 2, EPOCH, 2, 3, 1, 0)
    assert not asked_again(bench, answered(2, asked, fetch_response(bounds, corrupt)), 2)
    assert bench.machine.invalid_batch_epoch == EPOCH and bench.machine.end_offset == 2


# -- two leaders of one epoch ------------------------------------------------------------------


def conflicting_leader(source: int, leader_id: int, epoch: int = EPOCH) -> Any:
    """`source` answers a vote that `leader_id` leads."""
    asked = vote_request(CONFIG, source, NODE, EPOCH, (4, 2), True)
    return answered(source, asked, messages.vote_response(ErrorCode.NONE, leader_id, epoch, False))


def with_records_of_the_epoch() -> Bench:
    """Follows 2, and has a batch of its epoch."""
    bench = follower()
    batch = build_batch([(None, b"v")], base_offset=2, leader_epoch=EPOCH)
    bounds = FetchBounds(ErrorCode.NONE, 2, EPOCH, 2, 3, 1, 0)
    bench.step(answered(2, bench.machine.requests.in_flight[2][0], fetch_response(bounds, batch)))
    assert bench.machine.end_offset == 3
    return bench


def observer() -> Bench:
    bench = Bench(QuorumState(EPOCH, leader_id=2), voters=(2, 3))
    assert not bench.machine.is_voter and bench.machine.role is Role.FOLLOWER
    return bench


def asking_around() -> Bench:
    """Has followed 2, which is silent."""
    bench = follower()
    bench.step(TimerFired(inputs.FETCH), LATER)
    assert bench.machine.role is Role.PROSPECTIVE and bench.machine.leader_id == 2
    return bench


# Who knows another leader, by whose word whom it is told of, and whom it takes for the leader then;
# None if it stops.
CONFLICTING_LEADERS: list[tuple[Any, int, int, int | None]] = [
    (leader, 3, 3, None),
    (leader, 3, 2, NODE),
    (leader, 2, 2, None),
    (resigned, 3, 3, None),
    (resigned, 3, 2, -1),
    (follower, 3, 3, 3),
    (follower, 2, 3, 3),
    (follower, 3, 9, 2),
    (asking_around, 3, 3, 3),
    (asking_around, 2, 3, 3),
    (asking_around, 3, 9, 2),
    (with_records_of_the_epoch, 3, 3, None),
    (with_records_of_the_epoch, 2, 3, None),
    (with_records_of_the_epoch, 3, 9, 2),
    (observer, 3, 3, 3),
    (observer, -2, 3, 3),
]


@pytest.mark.parametrize(("make", "source", "leader_id", "then"), CONFLICTING_LEADERS)
def test_a_second_leader_of_an_epoch_is_weighed(
    make: Any, source: int, leader_id: int, then: int | None
) -> None:
    bench = make()
    before = bench.machine.state
    effects = bench.step(conflicting_leader(source, leader_id))
    if then is None:
        assert bench.machine.role is Role.FAILED
        assert [effect for effect in effects if isinstance(effect, Fail)]
        assert bench.machine.state == before
        return
    assert bench.machine.leader_id == then and bench.machine.role is not Role.FAILED
    assert bench.machine.state == replace(before, leader_id=then if then > 1 else before.leader_id)


def test_the_vote_stays_given_when_the_leader_on_record_turns_out_to_be_none() -> None:
    bench = Bench(QuorumState(EPOCH, 2, voted_id=3))
    bench.step(conflicting_leader(3, 3))
    assert bench.machine.state == QuorumState(EPOCH, 3, voted_id=3)
    bench.step(vote(EPOCH, log=(4, 9)))
    assert bench.machine.state.voted_id == 3


@pytest.mark.parametrize("named", [3, 4])
def test_one_message_in_the_wrong_moment_stops_no_node(named: int) -> None:
    """2 has given its vote to 1 and is told, before it hears of 1, that another leads: 3, which
    does not, or 4, which is not even there."""
    world = quorum(3, observers=1)
    for id_ in (1, 2, 3):
        world.start(id_)
    world.fire(1, inputs.ELECTION)
    while world.machine(1).role is not Role.LEADER:
        world.deliver(world.flights()[0])
    epoch = world.machine(1).epoch
    lie = messages.begin_request(replace(CONFIG, cluster_id=None), 2, QuorumState(epoch, named))
    world.feed(2, received(lambda value: None, lie))
    assert world.machine(2).leader_id == named
    world.run(world.has_converged)
    world.wait(10_000)
    assert (world.leader(), world.machine(2).leader_id) == (1, 1)
    assert [world.node(id_).gave_up for id_ in world.ids] == [None] * 4
    if named == 3:
        assert world.machine(1).epoch == epoch, "3 itself says who leads"


# -- a lone voter ------------------------------------------------------------------------------


def alone() -> Bench:
    bench = Bench(QuorumState(EPOCH), voters=(NODE,))
    assert (bench.machine.role, bench.machine.epoch) == (Role.LEADER, EPOCH + 1)
    return bench


@pytest.mark.parametrize(
    "claim",
    [
        vote(EPOCH + 9, log=(0, 0)),
        vote(EPOCH + 9, log=(9, 9), pre_vote=True),
        begin(EPOCH + 9),
        end(EPOCH + 9, first=3),
        conflicting_leader(2, -1, EPOCH + 9),
        conflicting_leader(2, 2, EPOCH + 9),
        conflicting_leader(2, NODE, EPOCH + 9),
    ],
    ids=["vote", "pre-vote", "begin", "end", "later epoch", "later leader", "its own"],
)
def test_a_lone_voter_that_hears_of_a_later_epoch_leads_again_at_once(claim: Any) -> None:
    bench = alone()
    bench.step(claim)
    assert (bench.machine.role, bench.machine.epoch) == (Role.LEADER, EPOCH + 10)
    bench.log.durable_offset = bench.log.end_offset
    bench.step(Persisted(bench.log.end_offset))
    assert bench.machine.is_active_leader


def test_a_lone_voter_leaves_its_chance_to_whom_it_voted_for() -> None:
    """The candidate's log is longer: it may say that there are two voters."""
    bench = alone()
    bench.step(vote(EPOCH + 9, log=(EPOCH + 8, 9)))
    assert bench.machine.role is Role.UNATTACHED and bench.machine.state.voted_id == 3
    bench.step(begin(EPOCH + 9, leader_id=3))
    assert (bench.machine.role, bench.machine.leader_id) == (Role.FOLLOWER, 3)
    bench.step(TimerFired(inputs.FETCH), LATER)
    assert bench.machine.role is Role.LEADER, "it was silent"
