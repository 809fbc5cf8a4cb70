"""Fetching a snapshot: the table of `snapshots.py`, row by row."""

from __future__ import annotations

import pytest

from fencepost.batch.records import build_batch
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.effects import Reply, Send, TimerFired, Truncate
from fencepost.machines.quorum import (
    FetchBounds,
    QuorumState,
    RequestFailed,
    Role,
    SnapshotRefused,
    answered,
    fetch_response,
    inputs,
    messages,
    received,
)
from fencepost.machines.quorum.role_changes import SUCCESSION_STEP_MS
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import VoterSet
from fencepost.wire.api.fetch_snapshot import FetchSnapshotResponse
from fencepost.wire.errors import ErrorCode

from .snapshot_fixtures import (
    CONFIG,
    DATA,
    EPOCH,
    LATER,
    NODE,
    OFFERED,
    Bench,
    again,
    give,
    install,
    loaded,
    loading,
    offer,
    piece,
    works,
)


@pytest.mark.parametrize("epoch", [EPOCH, EPOCH + 1, (1 << 31) - 1])
@pytest.mark.parametrize("leader_id", [-77, -2])
def test_a_leader_that_no_node_can_be_is_not_believed(leader_id: int, epoch: int) -> None:
    """Its id would stand in quorum-state, which could then not be read at the next start."""
    bench = Bench()
    offer(bench, (-1, -1))
    bench.step(TimerFired(inputs.RETRY), LATER)
    asked = bench.machine.requests.in_flight[2][0]
    before = bench.machine.state
    bounds = FetchBounds(ErrorCode.NONE, leader_id, epoch, 5, 5, 9)
    effects = bench.step(answered(2, asked, fetch_response(bounds)))
    assert bench.machine.state == before and bench.machine.role is Role.FOLLOWER
    assert bench.asks(effects) is None, "and it is not asked again at once"


def test_a_the_next_piece_is_asked_for() -> None:
    bench = loading()
    asked = bench.machine.requests.in_flight[2][0]
    assert asked.topics[0].partitions[0].position == 100
    effects = give(bench, piece(100))
    (work,) = works(effects)
    assert (work.snapshot_id, work.position_bytes, bytes(work.data)) == (
        OFFERED,
        100,
        DATA[100:200],
    )
    assert bench.asks(effects).topics[0].partitions[0].position == 200
    assert (bench.machine.end_offset, bench.machine.high_watermark) == (5, 0)


def test_b_the_last_piece_has_it_installed() -> None:
    bench = loaded()
    assert bytes(bench.log.snapshots.partial[1]) == DATA  # type: ignore[index]
    assert (bench.machine.end_offset, bench.machine.high_watermark) == (5, 0), "nothing shows yet"


def test_c_a_piece_that_does_not_come_is_asked_for_again() -> None:
    bench = loading()
    first = bench.machine.requests.in_flight[2][0]
    bench.step(RequestFailed(2, first))
    bench.step(TimerFired(inputs.RETRY), CONFIG.retry_backoff_ms)
    second = bench.machine.requests.in_flight[2][0]
    assert second is not first and second.topics[0].partitions[0].position == 100
    assert not works(bench.step(answered(2, first, piece(100)))), "the late answer counts no more"
    bench.step(TimerFired(inputs.RETRY), CONFIG.request_timeout_ms)
    third = bench.machine.requests.in_flight[2][0]
    assert third is not second and third.topics[0].partitions[0].position == 100
    assert works(give(bench, piece(100)))


GIVEN_UP: dict[str, FetchSnapshotResponse] = {
    "d gone": piece(100, error=ErrorCode.SNAPSHOT_NOT_FOUND),
    "e out of range": piece(100, error=ErrorCode.POSITION_OUT_OF_RANGE),
    "e broken": piece(100, error=ErrorCode.UNKNOWN_SERVER_ERROR),
    "f refused whole": FetchSnapshotResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
    "f says nothing": FetchSnapshotResponse(),
    "g another snapshot": piece(100, id_=SnapshotId(9, 3)),
    "g another place": piece(0),
    "g a place further on": piece(200),
    "g an older epoch": piece(100, leader=(2, EPOCH - 1)),
    "g another size": piece(100, total=len(DATA) + 1),
    "h nothing": piece(100, size=0),
    "h too much": piece(100, size=150, total=200),
}


@pytest.mark.parametrize("name", sorted(GIVEN_UP))
def test_d_to_h_a_snapshot_is_given_up(name: str) -> None:
    bench = loading()
    effects = give(bench, GIVEN_UP[name])
    assert not works(effects) and bench.asks(effects) is None, "not at once"
    assert bench.machine.role is Role.FOLLOWER
    assert again(bench) == "FetchRequest"
    newer = bench.asks(offer(bench, (12, 5)))
    partition = newer.topics[0].partitions[0]
    assert (partition.snapshot_id.end_offset, partition.position) == (12, 0)


def test_i_another_leader_begins_again() -> None:
    bench = loading()
    effects = bench.step(
        received("t", messages.begin_request(CONFIG, NODE, QuorumState(EPOCH + 1, 3)))
    )
    sent = [e for e in effects if isinstance(e, Send)]
    assert [(e.to, type(e.message).__name__) for e in sent] == [(3, "FetchRequest")]
    asked = sent[0].message
    offered = FetchBounds(ErrorCode.NONE, 3, EPOCH + 1, 5, 5, 9, 9, snapshot_id=SnapshotId(9, 4))
    effects = bench.step(answered(3, asked, fetch_response(offered)))
    (request,) = [e.message for e in effects if isinstance(e, Send)]
    assert request.topics[0].partitions[0].position == 0, "another leader, another file"


def test_i_a_leader_heard_of_in_the_answer_itself() -> None:
    bench = loading()
    give(bench, piece(100, error=ErrorCode.FENCED_LEADER_EPOCH, leader=(3, EPOCH + 2)))
    assert (bench.machine.epoch, bench.machine.leader_id) == (EPOCH + 2, 3)


def test_j_the_log_begins_and_ends_where_the_snapshot_does() -> None:
    bench = loaded()
    effects = install(bench)
    machine = bench.machine
    assert (machine.end_offset, machine.high_watermark) == (9, 9)
    asked = bench.asks(effects).topics[0].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.high_watermark) == (9, 4, 9)
    assert not works(effects)
    vote = received("t", messages.vote_request(CONFIG, NODE, 3, EPOCH, (4, 8), True))
    refused = next(e.value for e in bench.step(vote) if isinstance(e, Reply))
    assert not refused.topics[0].partitions[0].vote_granted, "the snapshot's log is longer"


def test_j_what_is_behind_a_snapshot_can_be_cut_off_again_and_no_more() -> None:
    bench = loaded()
    install(bench)
    asked = bench.machine.requests.in_flight[2][0]
    batch = build_batch([(None, b"new")], base_offset=9, leader_epoch=5)
    bench.step(
        answered(2, asked, fetch_response(FetchBounds(ErrorCode.NONE, 2, EPOCH, 9, 10, 9), batch))
    )
    bench.flush()
    bench.step(TimerFired(inputs.RETRY))
    asked = bench.machine.requests.in_flight[2][0]
    cut = FetchBounds(ErrorCode.NONE, 2, EPOCH, 10, 10, 9, diverging=(4, 9))
    effects = bench.step(answered(2, asked, fetch_response(cut)))
    (work,) = works(effects)
    assert work == Truncate(9)
    asked = bench.asks(effects).topics[0].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (9, 4), "the snapshot's epoch again"


def test_k_a_snapshot_that_is_not_sound_is_fetched_again() -> None:
    bench = loaded()
    bench.step(SnapshotRefused(OFFERED, "crc"))
    bench.step(TimerFired(inputs.RETRY), CONFIG.fetch_timeout_ms // 2 - 1)
    assert not bench.machine.requests.in_flight, (
        "the leader is not made to send it all again at once"
    )
    assert again(bench) == "FetchRequest"
    assert bench.asks(offer(bench)).topics[0].partitions[0].position == 0


def test_no_node_stands_or_fetches_while_a_snapshot_takes_the_logs_place() -> None:
    bench = loaded()
    for _ in range(4):
        bench.step(TimerFired(inputs.FETCH), LATER)
        bench.step(TimerFired(inputs.ELECTION), LATER)
        assert bench.machine.role is Role.FOLLOWER and not bench.machine.requests.in_flight
    ask = received("t", messages.vote_request(CONFIG, NODE, 3, EPOCH + 1, (4, 9), False))
    granted = next(e.value for e in bench.step(ask) if isinstance(e, Reply))
    assert granted.topics[0].partitions[0].vote_granted, "it votes, by the log it had"
    for _ in range(4):
        bench.step(TimerFired(inputs.ELECTION), LATER)
        assert bench.machine.role is Role.UNATTACHED
    install(bench)
    bench.step(TimerFired(inputs.ELECTION), LATER)
    assert bench.machine.role is Role.PROSPECTIVE


def test_a_silent_leader_leaves_the_vote_of_who_is_installing_to_others() -> None:
    bench = loaded()
    pre_vote = received("t", messages.vote_request(CONFIG, NODE, 3, EPOCH, (4, 9), True))

    def is_granted() -> bool:
        said = next(e.value for e in bench.step(pre_vote) if isinstance(e, Reply))
        return bool(said.topics[0].partitions[0].vote_granted)

    assert not is_granted(), "the leader has just spoken"
    bench.step(TimerFired(inputs.FETCH), CONFIG.fetch_timeout_ms + SUCCESSION_STEP_MS)
    assert is_granted()


def test_a_snapshot_below_the_high_watermark_is_none_of_our_leaders() -> None:
    bench = Bench(snapshots=((4, 3),))
    assert bench.machine.high_watermark == 4
    offer(bench, (3, 9))
    assert bench.machine.role is Role.FAILED


@pytest.mark.parametrize("half", [(0, 0), (-1, 4), (9, -1)])
def test_an_offer_that_makes_no_sense_is_not_taken_up(half: tuple[int, int]) -> None:
    bench = Bench()
    assert bench.asks(offer(bench, half)) is None
    assert again(bench) == "FetchRequest"


def heard_of_a_later_epoch(bench: Bench) -> Bench:
    ask = messages.vote_request(CONFIG, NODE, 3, EPOCH + 1, (4, 9), False)
    bench.step(received("t", ask))
    assert bench.machine.role is Role.UNATTACHED
    return bench


def test_who_has_no_vote_by_the_snapshot_waits_for_no_election() -> None:
    """Its own epoch would be ahead of the leader's, which it then could never follow."""
    bench = heard_of_a_later_epoch(loaded())
    effects = install(bench, VoterHistory(VoterSet.of_ids((2, 3))))
    assert [e for e in effects if isinstance(e, Send)], "it asks around, as observers do"
    bench.step(TimerFired(inputs.ELECTION), LATER)
    assert (bench.machine.role, bench.machine.epoch) == (Role.UNATTACHED, EPOCH + 1)


def test_who_has_a_vote_by_the_snapshot_stands_in_time() -> None:
    observer = Bench(voters=(2, 3))
    bench = heard_of_a_later_epoch(loaded(observer))
    assert inputs.ELECTION not in bench.machine.timers.deadlines
    install(bench, VoterHistory(VoterSet.of_ids((1, 2, 3))))
    bench.step(TimerFired(inputs.ELECTION), LATER)
    assert bench.machine.role is Role.PROSPECTIVE


def test_who_was_leader_and_answers_that_it_is_none_gets_no_more_time() -> None:
    bench = loading()
    for error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE):
        last_heard_ms = bench.now_ms
        bench.now_ms += CONFIG.fetch_timeout_ms // 2
        give(bench, piece(100, error=error, leader=(-1, EPOCH)))
        waits_until_ms = last_heard_ms + CONFIG.fetch_timeout_ms + SUCCESSION_STEP_MS
        assert bench.machine.timers.deadlines[inputs.FETCH] == waits_until_ms
        bench = loading()
