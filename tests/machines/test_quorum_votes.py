"""Votes: checks in their order, who gets one, how they are counted."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.effects import Persisted, TimerFired
from fencepost.machines.quorum import (
    QuorumState,
    RequestFailed,
    Role,
    answered,
    inputs,
    messages,
    received,
)
from fencepost.wire.api import begin_quorum_epoch, end_quorum_epoch, vote as wire_vote
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .quorum_fixtures import (
    CONFIG,
    EPOCH,
    LATER,
    NODE,
    answer_to_vote,
    candidate,
    prospective,
    reply_to,
    unattached,
)

ELSEWHERE = Uuid(bytes(15) + b"\x63")


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


def test_a_vote_is_given_again_to_its_candidate_and_to_no_other() -> None:
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
    asked = bench.machine.requests.in_flight[3][0]
    effects = bench.step(RequestFailed(3, asked))
    assert not [e for e in effects if getattr(e, "to", None) == 3]
    again = bench.sent(bench.step(TimerFired(inputs.RETRY), CONFIG.retry_backoff_ms), 3)
    assert again == asked and again is not asked
