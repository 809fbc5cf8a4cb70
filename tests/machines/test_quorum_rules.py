"""The quorum's rules one by one: checks in their order, fetching, committing, timing."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.batch.records import build_batch
from fencepost.machines.effects import (
    Append,
    Fail,
    Persist,
    Persisted,
    Reply,
    SendAfterPersist,
    TimerFired,
    Truncate,
)
from fencepost.machines.quorum import (
    AppendRecords,
    FetchBounds,
    QuorumMachine,
    QuorumState,
    RequestFailed,
    Role,
    Start,
    answered,
    config as limits,
    fetch_response,
    inputs,
    messages,
    received,
)
from fencepost.machines.quorum.voters import ReplicaKey
from fencepost.wire.api import begin_quorum_epoch, end_quorum_epoch, vote as wire_vote
from fencepost.wire.api.fetch import FetchRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .quorum_log import ListLog
from .quorum_world import World
from .test_quorum_table import (
    CONFIG,
    EPOCH,
    LATER,
    NODE,
    Bench,
    answer_to_fetch,
    answer_to_vote,
    append,
    candidate,
    describe,
    fetch_request,
    follower,
    leader,
    prospective,
    resigned,
    unattached,
)

ELSEWHERE = Uuid(bytes(15) + b"\x63")


def reply_to(bench: Bench, request: Any, after_ms: int = 0) -> Any:
    """What a request is answered with at once."""
    effects = bench.step(received("t", request), after_ms)
    replies = [e.value for e in effects if isinstance(e, Reply)]
    assert len(replies) == 1, effects
    return replies[0]


# -- Vote --------------------------------------------------------------------------------------


def vote_request(**changes: Any) -> wire_vote.VoteRequest:
    request = messages.vote_request(CONFIG, NODE, 3, EPOCH, (4, 2), False)
    partition = request.topics[0].partitions[0]
    for name, value in changes.items():
        owner = partition if hasattr(partition, name) else request
        if name == "topic_name":
            owner = request.topics[0]
        setattr(owner, name, value)
    return request


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"last_offset_epoch": EPOCH}, ErrorCode.INVALID_REQUEST),
        ({"last_offset_epoch": EPOCH + 1, "pre_vote": True}, ErrorCode.INVALID_REQUEST),
        ({"last_offset_epoch": EPOCH, "pre_vote": True}, ErrorCode.NONE),
        ({"last_offset_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"replica_epoch": EPOCH - 1, "last_offset_epoch": 3}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"replica_id": -1}, ErrorCode.INVALID_REQUEST),
        ({"replica_id": NODE}, ErrorCode.INVALID_REQUEST),
        ({"voter_id": 2}, ErrorCode.INVALID_VOTER_KEY),
        ({"voter_id": -1}, ErrorCode.NONE),
        ({"voter_directory_id": ELSEWHERE}, ErrorCode.INVALID_VOTER_KEY),
        ({}, ErrorCode.NONE),
    ],
)
def test_vote_requests_are_checked(changes: dict[str, Any], error: ErrorCode) -> None:
    response = reply_to(unattached(), vote_request(**changes))
    assert response.error_code == 0
    assert response.topics[0].partitions[0].error_code == error


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (vote_request(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (vote_request(topic_name="other"), ErrorCode.INVALID_REQUEST),
        (vote_request(partition_index=1), ErrorCode.INVALID_REQUEST),
        (wire_vote.VoteRequest(), ErrorCode.INVALID_REQUEST),
        (begin_quorum_epoch.BeginQuorumEpochRequest(), ErrorCode.INVALID_REQUEST),
        (
            begin_quorum_epoch.BeginQuorumEpochRequest(cluster_id="other"),
            ErrorCode.INCONSISTENT_CLUSTER_ID,
        ),
        (end_quorum_epoch.EndQuorumEpochRequest(), ErrorCode.INVALID_REQUEST),
        (
            end_quorum_epoch.EndQuorumEpochRequest(cluster_id="other"),
            ErrorCode.INCONSISTENT_CLUSTER_ID,
        ),
    ],
)
def test_requests_about_something_else_are_refused_whole(request_: Any, error: ErrorCode) -> None:
    response = reply_to(unattached(), request_)
    assert (response.error_code, response.topics) == (error, [])


def test_a_wrong_voter_key_still_brings_the_epoch() -> None:
    bench = unattached()
    reply_to(bench, vote_request(voter_id=2, replica_epoch=EPOCH + 1))
    assert bench.machine.state == QuorumState(EPOCH + 1)


def test_a_vote_is_given_again_to_whom_it_was_given_and_to_nobody_else() -> None:
    bench = unattached()

    def granted(**changes: Any) -> bool:
        response = reply_to(bench, vote_request(**changes))
        return bool(response.topics[0].partitions[0].vote_granted)

    assert granted(replica_directory_id=ELSEWHERE)
    assert granted(replica_directory_id=ELSEWHERE, last_offset_epoch=0, last_offset=0)
    assert not granted(), "the same node with another disk is another voter"
    assert not granted(replica_id=2)
    assert bench.machine.state == QuorumState(EPOCH, -1, 3, ELSEWHERE)


def test_giving_a_vote_gives_time_to_win_with_it() -> None:
    bench = unattached()
    bench.step(Persisted(2), after_ms=900)
    bench.step(received("t", vote_request()))
    bench.step(TimerFired(inputs.ELECTION), after_ms=200)
    assert bench.machine.role is Role.UNATTACHED
    bench.step(TimerFired(inputs.ELECTION), after_ms=2_000)
    assert bench.machine.role is Role.PROSPECTIVE


def test_hearing_of_epochs_does_not_put_off_the_election_for_ever() -> None:
    bench = unattached()
    for later in range(1, 4):
        bench.step(
            received("t", vote_request(replica_epoch=EPOCH + later, last_offset=0, voter_id=2)),
            after_ms=400,
        )
    assert bench.machine.role is Role.UNATTACHED
    bench.step(TimerFired(inputs.ELECTION))
    assert bench.machine.role is Role.PROSPECTIVE


# -- counting votes ----------------------------------------------------------------------------


def test_a_prospective_gives_up_when_no_majority_is_left() -> None:
    bench = prospective()
    bench.step(answer_to_vote(bench, False))
    assert bench.machine.role is Role.PROSPECTIVE
    asked = messages.vote_request(CONFIG, 2, NODE, EPOCH, (4, 2), True)
    bench.step(answered(2, asked, messages.vote_response(ErrorCode.NONE, -1, EPOCH, False)))
    assert bench.machine.role is Role.UNATTACHED


def test_a_candidate_that_lost_sits_out_its_time() -> None:
    bench = candidate()
    bench.step(answer_to_vote(bench, False))
    asked = messages.vote_request(CONFIG, 2, NODE, EPOCH, (4, 2), False)
    bench.step(answered(2, asked, messages.vote_response(ErrorCode.NONE, -1, EPOCH, False)))
    assert bench.machine.role is Role.CANDIDATE
    bench.step(TimerFired(inputs.ELECTION), LATER)
    assert bench.machine.role is Role.PROSPECTIVE


def test_votes_of_strangers_other_epochs_and_pre_votes_do_not_count() -> None:
    bench = candidate()
    yes = messages.vote_response(ErrorCode.NONE, -1, EPOCH, True)
    pre = messages.vote_request(CONFIG, 3, NODE, EPOCH, (4, 2), True)
    old = messages.vote_request(CONFIG, 3, NODE, EPOCH - 1, (3, 2), False)
    own = messages.vote_request(CONFIG, 9, NODE, EPOCH, (4, 2), False)
    for source, asked in ((3, pre), (3, old), (9, own)):
        bench.step(answered(source, asked, yes))
    assert bench.machine.role is Role.CANDIDATE


def test_a_voter_that_knows_no_pre_votes_is_asked_for_its_vote() -> None:
    bench = prospective()
    asked = messages.vote_request(CONFIG, 3, NODE, EPOCH, (4, 2), True)
    refusal = wire_vote.VoteResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    bench.step(answered(3, asked, refusal))
    assert (bench.machine.role, bench.machine.epoch) == (Role.CANDIDATE, EPOCH + 1)


def test_a_failed_vote_request_is_sent_again_after_a_pause() -> None:
    bench = prospective()
    asked = bench.machine._in_flight[3][0]
    effects = bench.step(RequestFailed(3, asked))
    assert not [e for e in effects if getattr(e, "to", None) == 3]
    again = bench.sent(bench.step(TimerFired(inputs.RETRY), CONFIG.retry_backoff_ms), 3)
    assert again == asked and again is not asked


# -- fetching from a leader --------------------------------------------------------------------


def fetch(**changes: Any) -> FetchRequest:
    request = fetch_request(EPOCH)
    partition = request.topics[0].partitions[0]
    for name, value in changes.items():
        setattr(partition if hasattr(partition, name) else request, name, value)
    return request


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"max_wait_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"fetch_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_fetched_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_fetched_epoch": EPOCH + 1}, ErrorCode.INVALID_REQUEST),
        ({"current_leader_epoch": EPOCH - 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": EPOCH + 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({}, ErrorCode.NONE),
    ],
)
def test_fetches_are_checked(changes: dict[str, Any], error: ErrorCode) -> None:
    bounds = reply_to(leader(), fetch(**changes))
    assert bounds.error == error
    assert (bounds.leader_id, bounds.leader_epoch) == (NODE, EPOCH)


def test_fetches_of_another_cluster_or_topic_are_refused_whole() -> None:
    bounds = reply_to(leader(), fetch(cluster_id="other"))
    assert fetch_response(bounds).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    bounds = reply_to(leader(), FetchRequest())
    response = fetch_response(bounds)
    assert response.error_code == ErrorCode.INVALID_REQUEST and response.responses == []


def test_old_fetches_name_the_topic_and_the_replica_as_they_did() -> None:
    request = fetch(replica_id=3)
    request.topics[0].topic_id = Uuid.ZERO
    request.replica_state.replica_id = -1
    bench = leader()
    assert reply_to(bench, request).upper_bound_offset == 3
    assert messages.replica_id_of(request) == 3


@pytest.mark.parametrize(
    ("last", "offset", "diverging"),
    [
        (4, 2, None),
        (4, 1, None),
        (0, 0, None),
        (4, 3, (4, 2)),
        (3, 2, (3, 0)),
        (5, 9, (5, 3)),
        (2, 1, (2, 0)),
    ],
)
def test_readers_are_told_where_they_diverge(
    last: int, offset: int, diverging: tuple[int, int] | None
) -> None:
    bench = leader()
    bounds = reply_to(bench, fetch(last_fetched_epoch=last, fetch_offset=offset))
    assert bounds.diverging == diverging
    if diverging:
        assert bounds.upper_bound_offset == bounds.offset, "nothing to read"
        assert bench.machine._body.followers[3].end_offset == -1, "no progress"
        said = fetch_response(bounds).responses[0].partitions[0].diverging_epoch
        assert (said.epoch, said.end_offset) == diverging


def test_a_caught_up_fetch_waits_for_data_or_time() -> None:
    bench = leader()
    asked = fetch(fetch_offset=3, last_fetched_epoch=EPOCH)
    assert bench.step(received("first", asked))[-1:] != []
    effects = bench.step(append())
    assert [e.token for e in effects if isinstance(e, Reply)] == ["first"]
    bench.step(received("second", fetch(fetch_offset=4, last_fetched_epoch=EPOCH)))
    effects = bench.step(TimerFired(inputs.FETCH_WAIT), CONFIG.fetch_max_wait_ms)
    bounds = [e.value for e in effects if isinstance(e, Reply)]
    assert [(b.offset, b.upper_bound_offset) for b in bounds] == [(4, 4)]


def test_a_reader_with_an_old_high_watermark_is_answered_at_once() -> None:
    bench = leader()
    bench.step(Persisted(3))
    bounds = reply_to(bench, fetch(fetch_offset=3, last_fetched_epoch=EPOCH, high_watermark=0))
    assert (bounds.upper_bound_offset, bounds.high_watermark) == (3, 3)


def test_what_is_no_replica_reads_up_to_the_high_watermark() -> None:
    bench = leader()
    asked = fetch(fetch_offset=0, last_fetched_epoch=0, max_wait_ms=0)
    asked.replica_state.replica_id = -1
    assert reply_to(bench, asked).upper_bound_offset == 0
    bench.step(Persisted(3))
    bench.step(received("t", fetch(fetch_offset=3, last_fetched_epoch=EPOCH)))
    assert reply_to(bench, asked).upper_bound_offset == 3


def test_parked_fetches_and_pending_appends_hear_of_the_end_of_a_leadership() -> None:
    bench = leader()
    bench.step(append())
    bench.step(received("parked", fetch(fetch_offset=4, last_fetched_epoch=EPOCH)))
    effects = bench.step(received("begin", messages.begin_request(CONFIG, NODE, QuorumState(9, 2))))
    assert isinstance(effects[0], Persist), "the new epoch is on disk before anybody hears of it"
    told = {e.token: e.value for e in effects if isinstance(e, Reply)}
    assert told["t"].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert told["parked"].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (told["parked"].leader_id, told["parked"].leader_epoch) == (2, 9)


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_PENDING_APPENDS", "MAX_PARKED_FETCHES", "MAX_OBSERVERS"):
        assert getattr(limits, name) > 0
        module = "leading" if name == "MAX_PENDING_APPENDS" else "serving"
        monkeypatch.setattr(f"fencepost.machines.quorum.{module}.{name}", 1)
    bench = leader()
    bench.step(append())
    effects = bench.step(append())
    outcome = next(e.value for e in effects if isinstance(e, Reply))
    assert outcome.error is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    end = {"fetch_offset": 4, "last_fetched_epoch": EPOCH}
    assert not [e for e in bench.step(received("t", fetch(**end))) if isinstance(e, Reply)]
    assert reply_to(bench, fetch(**end)).error is ErrorCode.NONE
    for observer in (7, 8, 9):
        asked = fetch(**end)
        asked.replica_state.replica_id = observer
        reply_to(bench, asked)
    assert len(bench.machine._body.observers) == 1


# -- committing --------------------------------------------------------------------------------


def test_a_majority_on_disk_commits() -> None:
    bench = leader()
    bench.step(append())
    bench.step(received("f", fetch(fetch_offset=4, last_fetched_epoch=EPOCH)))
    assert bench.machine.high_watermark == 0, "the leader's own disk is not there yet"
    effects = bench.step(Persisted(4))
    assert bench.machine.high_watermark == 4
    outcome = next(e.value for e in effects if isinstance(e, Reply) and e.token == "t")
    assert (outcome.error, outcome.base_offset) == (ErrorCode.NONE, 3)


def test_a_leader_is_active_once_its_first_record_is_committed() -> None:
    bench = leader()
    bench.step(Persisted(3))
    assert not bench.machine.is_active_leader
    bench.step(received("f", fetch(fetch_offset=2)))
    assert not bench.machine.is_active_leader
    bench.step(received("f", fetch(fetch_offset=3, last_fetched_epoch=EPOCH)))
    assert bench.machine.is_active_leader and bench.machine.epoch_start_offset == 2


def test_a_voter_that_lost_its_disk_takes_nothing_back() -> None:
    bench = leader()
    bench.step(Persisted(3))
    bench.step(received("f", fetch(fetch_offset=3, last_fetched_epoch=EPOCH)))
    bench.step(received("f", fetch(fetch_offset=0, last_fetched_epoch=0)))
    assert bench.machine.high_watermark == 3
    bench.step(append())
    bench.step(Persisted(4))
    assert bench.machine.high_watermark == 3, "it does not count for what it no longer has"


def test_appends_name_their_epoch_and_may_name_their_place() -> None:
    bench = leader()

    def outcome(epoch: int, base_offset: int) -> ErrorCode | None:
        batch = build_batch([(None, b"x")])
        effects = bench.step(AppendRecords([batch], "t", epoch, base_offset))
        return next((e.value.error for e in effects if isinstance(e, Reply)), None)

    assert outcome(EPOCH - 1, -1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert outcome(EPOCH, 7) is ErrorCode.INVALID_UPDATE_VERSION
    assert outcome(EPOCH, 3) is None
    assert bench.machine.end_offset == 4


def test_batches_of_several_records_count_all_of_them() -> None:
    bench = leader()
    batches = [build_batch([(None, b"x")] * 3), build_batch([(None, b"y")] * 2)]
    bench.step(AppendRecords(batches, "t", EPOCH))
    assert bench.machine.end_offset == 8 == bench.log.end_offset


# -- following ---------------------------------------------------------------------------------


def leader_says(bench: Bench, records: Any = b"", **changes: Any) -> Any:
    values = {
        "error": ErrorCode.NONE,
        "leader_id": 2,
        "leader_epoch": EPOCH,
        "offset": 2,
        "upper_bound_offset": 2,
        "high_watermark": 1,
        "log_start_offset": 0,
        **changes,
    }
    input_ = answer_to_fetch(bench, FetchBounds(**values))
    input_.response.responses[0].partitions[0].records = records
    return input_


def batch_at(offset: int, epoch: int, value: bytes = b"v") -> bytearray:
    return build_batch([(None, value)], base_offset=offset, leader_epoch=epoch)


def test_a_follower_appends_and_fetches_again_after_the_flush() -> None:
    bench = follower()
    effects = bench.step(leader_says(bench, batch_at(2, 4) + batch_at(3, 5), high_watermark=3))
    works = [e.work for e in effects if isinstance(e, Persist)]
    assert len(works) == 1 and isinstance(works[0], Append) and not works[0].as_leader
    sent = bench.sent(effects, 2)
    asked = sent.topics[0].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.high_watermark) == (4, 5, 3)
    assert any(isinstance(e, SendAfterPersist) for e in effects)
    assert bench.machine.high_watermark == 3


def test_a_batch_that_was_cut_short_is_left_for_the_next_fetch() -> None:
    bench = follower()
    bench.step(leader_says(bench, batch_at(2, 5) + batch_at(3, 5)[:-3], high_watermark=9))
    assert (bench.machine.end_offset, bench.machine.high_watermark) == (3, 3)


@pytest.mark.parametrize(
    "records",
    [
        batch_at(3, 5),
        batch_at(1, 5),
        batch_at(2, 3),
        batch_at(2, 6),
        batch_at(2, 5)[:-1] + b"!",
        batch_at(2, 5) + batch_at(4, 5),
        bytes(40),
        bytes(17) + b"\xff" * 60,
    ],
)
def test_batches_that_cannot_be_are_not_appended(records: Any) -> None:
    bench = follower()
    effects = bench.step(leader_says(bench, records, high_watermark=9))
    is_short = len(records) == 40
    assert not [e for e in effects if isinstance(e, Persist)]
    assert bench.machine.role is Role.FOLLOWER and bench.machine.end_offset == 2
    if not is_short:
        assert bench.machine.high_watermark == 0, "a flawed answer says nothing"
        resent = bench.step(TimerFired(inputs.RETRY), CONFIG.retry_backoff_ms)
        assert bench.sent(resent, 2).topics[0].partitions[0].fetch_offset == 2


def test_an_answer_that_comes_twice_counts_once() -> None:
    bench = follower()
    input_ = leader_says(bench, batch_at(2, 5))
    bench.step(input_)
    effects = bench.step(input_)
    assert effects == [] and bench.machine.end_offset == 3


def test_a_follower_cuts_where_the_logs_part() -> None:
    bench = follower()
    effects = bench.step(leader_says(bench, diverging=(4, 1)))
    assert [e.work for e in effects if isinstance(e, Persist)] == [Truncate(1)]
    asked = bench.sent(effects, 2).topics[0].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (1, 4)
    effects = bench.step(leader_says(bench, diverging=(3, 0)))
    asked = bench.sent(effects, 2).topics[0].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (0, 0)


def test_a_follower_never_cuts_what_is_committed() -> None:
    bench = follower()
    bench.step(leader_says(bench, high_watermark=2))
    effects = bench.step(leader_says(bench, diverging=(4, 1), high_watermark=2))
    assert any(isinstance(e, Fail) for e in effects)
    assert bench.machine.role is Role.FAILED and bench.machine.end_offset == 2


@pytest.mark.parametrize("diverging", [(4, 2), (4, 7), (5, 9)])
def test_a_divergence_behind_the_end_is_none(diverging: tuple[int, int]) -> None:
    bench = follower()
    bench.step(leader_says(bench, diverging=diverging))
    assert bench.machine.role is Role.FAILED


def test_a_leader_that_speaks_keeps_its_followers() -> None:
    bench = follower()
    for _ in range(5):
        bench.step(leader_says(bench), after_ms=CONFIG.fetch_timeout_ms - 1)
        bench.step(TimerFired(inputs.FETCH))
        assert bench.machine.role is Role.FOLLOWER
    bench.step(TimerFired(inputs.FETCH), CONFIG.fetch_timeout_ms)
    assert bench.machine.role is Role.PROSPECTIVE


def test_who_stands_next_is_a_matter_of_place() -> None:
    def backoff(candidates: tuple[int, ...]) -> int:
        bench = follower()
        keys = [ReplicaKey(id_) for id_ in candidates]
        request = messages.end_request(CONFIG, QuorumState(EPOCH, 2), keys)
        bench.step(received("t", request))
        if bench.machine.role is Role.PROSPECTIVE:
            return 0
        return bench.machine._deadlines[inputs.FETCH] - bench.now_ms

    most = CONFIG.election_backoff_max_ms
    assert backoff((1, 3)) == 0
    assert backoff((3, 1)) == most // 2
    assert [backoff((7, 8, 9)[:n] + (1,) + (7, 8, 9)[n:]) for n in range(4)] == [0, 125, 250, 500]
    assert backoff((3, 7)) == most
    assert backoff(()) == most


def test_the_old_form_of_the_list_of_successors_is_read_too() -> None:
    partition = end_quorum_epoch.PartitionDataRequest(preferred_successors=[2, 1])
    assert messages.preferred_candidates_of(partition) == [ReplicaKey(2), ReplicaKey(1)]


def test_an_observer_asks_the_voters_in_turn_and_follows() -> None:
    world = World(3, observers=1)
    world.start(4)
    targets = []
    while len(targets) < 6:
        if world.flights and world.flights[0].kind == "request":
            targets.append(world.flights[0].target)
        world.tick()
    assert targets == [2, 3, 1, 2, 3, 1]
    for id_ in (1, 2, 3):
        world.start(id_)
    world.run(lambda: world.leader() is not None and world.has_converged())
    assert world.machine(4).role is Role.FOLLOWER
    leader_id = world.leader()
    assert leader_id is not None
    world.crash(leader_id)
    world.run(lambda: world.leader() is not None and world.has_converged())
    assert world.machine(4).leader_id == world.leader()


# -- resigning, failing, describing ------------------------------------------------------------


def test_a_leader_that_resigns_names_the_most_advanced_first() -> None:
    bench = leader()
    asked = fetch(fetch_offset=3, last_fetched_epoch=EPOCH)
    bench.step(received("t", asked))
    request = bench.sent(bench.step(inputs.Resign()), 2)
    partition = request.topics[0].partitions[0]
    assert [key.id for key in messages.preferred_candidates_of(partition)] == [3, 2]
    assert (partition.leader_id, partition.leader_epoch) == (NODE, EPOCH)
    assert bench.machine.leader_id == -1, "it is not to be turned to any more"


def test_a_resigned_leader_tells_until_it_is_heard() -> None:
    bench = leader()
    request = bench.sent(bench.step(inputs.Resign()), 2)
    response = messages.end_response(ErrorCode.NONE, -1, EPOCH)
    bench.step(answered(2, request, response))
    effects = bench.step(TimerFired(inputs.RETRY), CONFIG.request_timeout_ms)
    assert [e.to for e in effects if hasattr(e, "to")] == [3]


def test_a_handover_is_quick() -> None:
    world = World(3)
    for id_ in world.nodes:
        world.start(id_)
    world.run(lambda: world.leader() is not None and world.has_converged())
    old, before_ms = world.leader(), world.now_ms
    assert old is not None
    world.driver(old).feed("metadata", inputs.Resign())
    world.run(lambda: world.leader() not in (None, old))
    assert world.now_ms - before_ms < CONFIG.election_timeout_ms


def test_a_leader_reminds_those_that_do_not_fetch() -> None:
    bench = leader()
    for voter in (2, 3):
        asked = bench.machine._in_flight[voter][0]
        response = messages.begin_response(ErrorCode.NONE, NODE, EPOCH)
        bench.step(answered(voter, asked, response))
    interval = CONFIG.begin_quorum_interval_ms
    bench.step(received("t", fetch(max_wait_ms=0)), after_ms=interval - 1)
    effects = bench.step(TimerFired(inputs.BEGIN_QUORUM), after_ms=1)
    assert [e.to for e in effects if hasattr(e, "to")] == [2]


def test_a_refused_write_ends_it_without_a_promise() -> None:
    world = World(1)
    world.start(1)
    world.settle()
    world.nodes[1].refuses_disk = "no space left"
    world.append(1, "never")
    assert world.nodes[1].failed == "the disk failed: no space left"
    assert world.outcomes["never"].error is ErrorCode.KAFKA_STORAGE_ERROR
    world.append(1, "later")
    assert world.outcomes["later"].error is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_vote_that_cannot_be_written_is_not_told() -> None:
    world = World(3)
    for id_ in world.nodes:
        world.start(id_)
    world.nodes[3].refuses_disk = "I/O error"
    world.fire(1, "election")
    world.settle()
    assert world.nodes[3].failed and world.leader() == 1
    assert world.machine(1)._body.followers[3].end_offset == -1


def test_the_quorum_describes_itself() -> None:
    bench = leader()
    bench.step(received("f", fetch(fetch_offset=3, last_fetched_epoch=EPOCH)), after_ms=5)
    asked = fetch(fetch_offset=2)
    asked.replica_state.replica_id = 9
    bench.step(received("f", asked), after_ms=5)
    said = description(bench, describe())
    assert (said.error_code, said.leader_id, said.leader_epoch) == (0, NODE, EPOCH)
    assert said.high_watermark == -1, "nothing of this epoch is committed yet"
    voters = [(v.replica_id, v.log_end_offset) for v in said.current_voters]
    assert voters == [(1, 3), (2, -1), (3, 3)]
    assert [(o.replica_id, o.log_end_offset) for o in said.observers] == [(9, 2)]
    later = description(bench, describe(), after_ms=CONFIG.observer_session_ms + 1)
    assert later.observers == []
    strange = describe()
    strange.request.topics[0].topic_name = "other"
    assert description(bench, strange).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def description(bench: Bench, input_: Any, after_ms: int = 0) -> Any:
    effects = bench.step(input_, after_ms)
    [reply] = [e for e in effects if isinstance(e, Reply) and not isinstance(e.value, FetchBounds)]
    return reply.value.topics[0].partitions[0]


def test_a_restarted_leader_is_nobodys_leader() -> None:
    bench = resigned()
    assert bench.machine.leader_id == -1 and bench.machine.state.leader_id == NODE
    bounds = reply_to(bench, fetch())
    assert (bounds.error, bounds.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_our_own_mistakes_are_asserted() -> None:
    log = ListLog()
    machine = QuorumMachine(1, (1, 2), log, QuorumState(), CONFIG)
    with pytest.raises(AssertionError, match="Start comes first"):
        machine.step(Persisted(0), 0)
    machine.step(Start([3]), 0)
    with pytest.raises(AssertionError, match="Start comes first"):
        machine.step(Start([3]), 0)
    log.append(Append([build_batch([(None, b"behind its back")])], 1))
    with pytest.raises(AssertionError, match="as we left it"):
        machine.step(Persisted(0), 0)
    unflushed = QuorumMachine(1, (1, 2), log, QuorumState(), CONFIG)
    with pytest.raises(AssertionError, match="flushed"):
        unflushed.step(Start([3]), 0)
    with pytest.raises(AssertionError, match="somebody to ask"):
        QuorumMachine(1, (), log, QuorumState(), CONFIG)
