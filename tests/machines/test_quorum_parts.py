"""Objects that the quorum machine is composed of, each by itself."""

from __future__ import annotations

import pytest

from fencepost.machines.effects import Persist, Reply, Send, SendAfterPersist, SetTimer, WriteState
from fencepost.machines.quorum import QuorumConfig, QuorumState
from fencepost.machines.quorum.epochs import EPOCH_STEP_MAX, EPOCHS_KEPT_BACK, EpochAllowance
from fencepost.machines.quorum.outbox import Outbox
from fencepost.machines.quorum.pending_change import PendingChange, VoterChanges
from fencepost.machines.quorum.requests import Requests
from fencepost.machines.quorum.rules import RULES
from fencepost.machines.quorum.state import EPOCH_MAX
from fencepost.machines.quorum.timers import Timers
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from fencepost.machines.quorum.waiting_fetches import WaitingFetch, WaitingFetches
from fencepost.wire.api.fetch import FetchPartition
from fencepost.wire.api.vote import VoteRequest
from fencepost.wire.types import Uuid

CONFIG = QuorumConfig(request_timeout_ms=100, retry_backoff_ms=10)

# -- outbox ----------------------------------------------------------------------------------------


def test_the_durable_state_is_written_in_front_of_what_depends_on_it() -> None:
    outbox = Outbox(QuorumState(), RULES)
    outbox.reply("early", "nothing has changed")
    outbox.remember(QuorumState(1, voted_id=2))
    outbox.emit(SetTimer("election", 5))
    outbox.reply("late", "yes")
    kinds = [type(effect) for effect in outbox.take()]
    assert kinds == [Reply, SetTimer, Persist, Reply]
    assert outbox.take() == []


def test_the_durable_state_is_written_at_the_end_of_a_step_at_the_latest() -> None:
    outbox = Outbox(QuorumState(), RULES)
    outbox.remember(QuorumState(1))
    outbox.remember(QuorumState(2))
    assert outbox.take() == [Persist(WriteState(QuorumState(2)))]


def test_what_does_not_change_is_not_written() -> None:
    outbox = Outbox(QuorumState(3, 1), RULES)
    outbox.remember(QuorumState(3, 1))
    assert outbox.take() == []


@pytest.mark.parametrize(
    "state", [QuorumState(2), QuorumState(3, 2), QuorumState(3, 1, 4)], ids=str
)
def test_an_epoch_does_not_fall_and_has_one_leader_and_one_vote(state: QuorumState) -> None:
    outbox = Outbox(QuorumState(3, 1, 2), RULES)
    with pytest.raises(AssertionError):
        outbox.remember(state)


def test_what_was_acknowledged_of_the_log_outlives_an_epoch() -> None:
    outbox = Outbox(QuorumState(3), RULES)
    outbox.acknowledge_log_end((3, 9))
    outbox.remember(QuorumState(4))
    assert outbox.state == QuorumState(4, acknowledged_end=(3, 9))
    outbox.begin_with(QuorumState(5))
    assert outbox.state.acknowledged_end == (3, 9)


def test_who_has_failed_writes_nothing_more() -> None:
    outbox = Outbox(QuorumState(), RULES)
    outbox.remember(QuorumState(1))
    outbox.drop_unwritten_state()
    assert outbox.take() == []


# -- timers and requests ---------------------------------------------------------------------------


def requests() -> tuple[Requests, Timers, Outbox]:
    outbox = Outbox(QuorumState(), RULES)
    timers = Timers(outbox)
    return Requests(CONFIG, outbox, timers), timers, outbox


def test_a_timer_that_fires_early_is_armed_again() -> None:
    _, timers, outbox = requests()
    timers.set("fetch", 50)
    outbox.take()
    timers.now_ms = 49
    assert not timers.is_due("fetch") and outbox.take() == [SetTimer("fetch", 50)]
    timers.now_ms = 50
    assert timers.is_due("fetch") and not timers.is_armed("fetch")
    assert not timers.is_due("fetch"), "it was disarmed"


def test_random_deadlines_are_one_to_two_timeouts_away() -> None:
    _, timers, _ = requests()
    timers.start([7, 2_000_000_123])
    timers.now_ms = 1_000
    assert [timers.random_deadline(100) for _ in range(3)] == [1_107, 1_123, 1_107]


def pump(made: Requests, peers: tuple[int, ...], flushes: bool = False) -> VoteRequest:
    message = VoteRequest()
    made.pump(peers, lambda peer: message, lambda asked: flushes)
    return message


def test_one_request_at_a_time_goes_to_each_peer() -> None:
    made, timers, outbox = requests()
    asked = pump(made, (2, 3))
    assert outbox.take() == [Send(2, asked), Send(3, asked), SetTimer("retry", 100)]
    pump(made, (2, 3))
    assert outbox.take() == []
    timers.now_ms = 30
    assert made.settle(2, asked, retry_later=True)
    assert not made.settle(2, asked, retry_later=True), "it comes twice"
    pump(made, (2, 3))
    assert outbox.take() == [SetTimer("retry", 40)]
    timers.now_ms = 40
    pump(made, (2,))
    assert [type(effect) for effect in outbox.take()] == [Send, SetTimer]


def test_an_answer_is_known_by_its_request_and_not_by_what_that_says() -> None:
    made, _, _ = requests()
    pump(made, (2,))
    assert not made.settle(2, VoteRequest(), retry_later=False)


def test_what_speaks_of_the_log_waits_for_the_disk() -> None:
    made, _, outbox = requests()
    asked = pump(made, (2,), flushes=True)
    assert outbox.take()[0] == SendAfterPersist(2, asked)


def test_requests_expire_when_their_time_is_up() -> None:
    made, timers, _ = requests()
    asked = pump(made, (2,))
    timers.now_ms = 99
    assert made.expired() == [] and made.sent_ms(2) == 0
    timers.now_ms = 100
    assert made.expired() == [(2, asked)]


def test_only_those_that_are_left_are_asked() -> None:
    made, _, _ = requests()
    pump(made, (2, 3))
    made.pause(4, 10)
    made.forget_all_but((3,))
    assert set(made.in_flight) == {3} and made.not_before == {}


# -- epochs ----------------------------------------------------------------------------------------


def test_of_the_last_epochs_as_many_are_believed_as_elections_have_time_for() -> None:
    free = EPOCH_MAX - EPOCHS_KEPT_BACK
    allowance = EpochAllowance(election_ms=500)
    allowance.start(now_ms=0)

    def is_believed(epoch: int, now_ms: int) -> bool:
        return not allowance.is_out_of_range(epoch, 0, now_ms, RULES)

    assert is_believed(free, 0) and is_believed(free + 1, 0)
    assert not is_believed(free + 2, 0) and is_believed(free + 2, 500)
    allowance.take(free + 2, 0, 500)
    assert not allowance.is_out_of_range(free + 3, free + 2, 1_000, RULES)
    assert allowance.is_out_of_range(free + 4, free + 2, 1_000, RULES)
    later = 10**9
    assert not allowance.is_out_of_range(free + 2 + EPOCH_STEP_MAX, free + 2, later, RULES)
    assert allowance.is_out_of_range(free + 3 + EPOCH_STEP_MAX, free + 2, later, RULES)


# -- a leader's pending change and waiting fetches -------------------------------------------------

FOUR = Voter(ReplicaKey(4, Uuid(bytes(15) + b"\4")), (Endpoint("CONTROLLER", "four", 4),), 0, 1)


def test_a_voter_to_be_is_asked_until_its_record_is_written() -> None:
    changes = VoterChanges()
    assert changes.asks is None and changes.endpoints_of(4) == ()
    change = changes.begin(PendingChange("t", 100, FOUR))
    assert changes.asks == 4 and changes.endpoints_of(4) == FOUR.endpoints
    assert changes.endpoints_of(5) == ()
    change.record_offset = 7
    assert changes.asks is None and changes.endpoints_of(4) == FOUR.endpoints
    assert not change.is_committed(7) and change.is_committed(8)
    assert changes.end() is change and changes.pending is None


def test_a_removal_asks_no_voter_and_is_not_committed_before_it_is_written() -> None:
    changes = VoterChanges()
    change = changes.begin(PendingChange("t", 100))
    assert changes.asks is None and not change.is_committed(10**9)


def test_what_voters_have_told_counts_for_voters_alone() -> None:
    changes = VoterChanges(described={4: FOUR})
    known = VoterSet.of_ids((4, 5))
    assert changes.described_in(known, ()).get(4) == FOUR
    assert changes.described_in(VoterSet.of_ids((5,)), ()).ids == (5,)


def test_fetches_that_are_ready_leave_in_order_and_the_others_stay() -> None:
    fetches = WaitingFetches()
    assert fetches.earliest_deadline_ms is None
    for number in range(6):
        fetches.add(WaitingFetch(number, number, FetchPartition(), 100, 50 - number))
    assert fetches.earliest_deadline_ms == 45
    ready = fetches.take_ready(lambda fetch: fetch.replica_id % 2 == 1)
    assert [fetch.token for fetch in ready] == [1, 3, 5]
    assert [fetch.token for fetch in fetches.fetches] == [0, 2, 4] and len(fetches) == 3
    assert fetches.earliest_deadline_ms == 46
