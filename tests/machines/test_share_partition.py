"""The rules of a share partition, case by case (KIP-932, KIP-1206, KIP-1222, KIP-1191)."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.share.acquiring import isolated_size, isolation_threshold
from fencepost.machines.share.in_flight import Run
from fencepost.machines.share.inputs import (
    Acknowledge,
    AcknowledgedBatch,
    LogStartMoved,
    MayAcquire,
    ShareLimits,
)
from fencepost.machines.share.partition import InvalidStateError, SharePartition
from fencepost.machines.share.records import DeadLetterCause, RecordState
from fencepost.machines.share.state_batch import StateBatch
from fencepost.wire.errors import ErrorCode
from tests.machines.share_world import ShareWorld

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
LOCK_MS = 1_000
TENS = tuple((first, first + 9) for first in range(0, 100, 10))
"""Ten batches of ten records."""


def world(
    *, limit: int = 5, locks: int = 200, renew: bool = True, letters: bool = False
) -> ShareWorld:
    return ShareWorld(ShareLimits(LOCK_MS, limit, locks, renew, letters), TENS)


# -- acquiring -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_records", "batch_size", "exact", "acquired"),
    [
        (1, 500, False, [(0, 9, 1)]),
        (10, 500, False, [(0, 9, 1)]),
        (11, 500, False, [(0, 19, 1)]),
        (25, 10, False, [(0, 9, 1), (10, 19, 1), (20, 29, 1)]),
        (25, 15, False, [(0, 19, 1), (20, 29, 1)]),
        (1, 500, True, [(0, 0, 1)]),
        (25, 500, True, [(0, 24, 1)]),
        (25, 10, True, [(0, 24, 1)]),
        (100, 10, True, [(n, n + 9, 1) for n in range(0, 100, 10)]),
        (500, 500, False, [(0, 99, 1)]),
        (0, 500, False, []),
    ],
)
def test_the_limit_is_hard_or_passed_to_the_end_of_a_batch(
    max_records: int, batch_size: int, exact: bool, acquired: Any
) -> None:
    share = world()
    assert share.acquire("a", max_records, batch_size=batch_size, exact=exact) == acquired


def test_a_piece_ends_where_the_batch_size_does() -> None:
    """Also if one record alone is left behind it."""
    share = ShareWorld(ShareLimits(LOCK_MS), [(0, 9), (10, 10)])
    assert share.acquire("a", 500, batch_size=10) == [(0, 9, 1), (10, 10, 1)]


def test_locks_are_limited_and_records_in_flight_may_still_come_back() -> None:
    share = world(locks=20)
    assert share.acquire("a", 500) == [(0, 19, 1)]
    assert not share.machine.can_acquire and share.acquire("b", 500) == []
    share.acknowledge(5, 6, RELEASE)
    assert share.acquire("b", 500) == []  # in transition
    share.answer()
    assert share.machine.can_acquire and share.machine.next_fetch_offset == 5
    assert share.acquire("b", 500) == [(5, 6, 2)]
    share.acknowledge(0, 4, ACCEPT)
    share.answer()
    assert share.machine.start_offset == 5 and share.machine.can_acquire
    assert share.acquire("b", 500) == [(20, 29, 1)]  # to the end of the batch


def test_a_hole_in_the_log_is_archived_and_not_written() -> None:
    share = ShareWorld(ShareLimits(LOCK_MS), [(0, 4), (8, 9), (12, 14)])
    assert share.acquire("a", 5) == [(0, 4, 1)]
    assert share.acquire("a", 2) == [(8, 9, 1)]
    assert share.states == [(0, 4, "ACQUIRED", 1), (5, 7, "ARCHIVED", 0), (8, 9, "ACQUIRED", 1)]
    share.release()
    share.answer()
    share.log = [share.log[2]]  # compacted meanwhile
    assert share.acquire("a", 50) == [(12, 14, 1)]
    assert share.machine.start_offset == 12 and share.writes == []


def test_aborted_transactions_are_archived_and_not_counted() -> None:
    share = world()
    assert share.acquire("a", 15, exact=True, aborted=[(0, 4), (12, 13)]) == [
        (5, 11, 1),
        (14, 14, 1),
    ]
    assert share.states[0] == (5, 11, "ACQUIRED", 1)
    share.acknowledge(5, 14, ACCEPT, GAP, ACCEPT, ACCEPT, ACCEPT, ACCEPT, ACCEPT, 0, 0, 1)
    assert share.replies == [("ack", ErrorCode.INVALID_RECORD_STATE)]


@pytest.mark.parametrize(("limit", "threshold"), [(2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (10, 5)])
def test_the_threshold_of_isolation(limit: int, threshold: int) -> None:
    assert isolation_threshold(limit) == threshold


@pytest.mark.parametrize(
    ("count", "limit", "size"),
    [
        (1, 5, None),
        (2, 5, None),
        (3, 5, 50),
        (4, 5, 1),
        (1, 2, None),
        (2, 3, 1),
        (5, 10, 50),
        (6, 10, 25),
        (8, 10, 6),
        (9, 10, 1),
    ],
)
def test_often_delivered_records_come_in_smaller_pieces(
    count: int, limit: int, size: int | None
) -> None:
    run = Run(0, 99, RecordState.AVAILABLE, count)
    assert isolated_size(run, limit) == size


def test_poisonous_records_come_alone() -> None:
    share = world(limit=3)
    for _ in range(2):
        share.acquire("a", 20)
        share.pass_time(LOCK_MS)
    assert share.states == [(0, 19, "AVAILABLE", 2)]
    assert [share.acquire("b", 500) for _ in range(3)] == [[(0, 0, 3)], [(1, 1, 3)], [(2, 2, 3)]]
    share.acknowledge(0, 2, ACCEPT, member_id="b")
    assert share.acquire("b", 500, exact=True) == [(3, 3, 3)]


def test_fresh_records_do_not_come_with_poisonous_ones_behind_them() -> None:
    share = world(limit=3)
    share.acquire("a", 10)
    share.acquire("b", 10)
    share.acknowledge(10, 19, RELEASE, member_id="b")
    share.answer()
    assert share.acquire("b", 10) == [(10, 19, 2)]
    share.acknowledge(10, 19, RELEASE, member_id="b")
    share.acknowledge(0, 9, RELEASE)
    share.answer()
    share.answer()
    assert share.acquire("b", 500) == [(0, 9, 2)]
    assert share.acquire("b", 500) == [(10, 10, 3)]


# -- acknowledging ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "letters", "state"),
    [
        (ACCEPT, False, "ACKNOWLEDGED"),
        (RELEASE, False, "AVAILABLE"),
        (REJECT, False, "ARCHIVED"),
        (REJECT, True, "ARCHIVING"),
        (GAP, True, "ARCHIVED"),
    ],
)
def test_what_an_acknowledgement_makes_of_a_record(kind: int, letters: bool, state: str) -> None:
    share = world(letters=letters)
    share.acquire("a", 10)
    share.acknowledge(3, 3, kind)
    assert share.replies == [] and share.state_of(3) is RecordState[state]
    assert share.writes[0].batches == (StateBatch(3, 3, RecordState[state], 1),)
    assert share.writes[0].start_offset == 0
    share.answer()
    assert share.replies == [("ack", ErrorCode.NONE)]
    assert share.states[1] == (3, 3, state, 1)


@pytest.mark.parametrize(
    ("batches", "member_id", "error"),
    [
        ([(0, 4, [ACCEPT])], "a", ErrorCode.NONE),
        ([(10, 14, [ACCEPT])], "a", 0),
        ([(8, 12, [ACCEPT])], "a", 0),
        ([(10, 14, [ACCEPT])], "b", ErrorCode.INVALID_RECORD_STATE),
        ([(20, 20, [ACCEPT])], "a", ErrorCode.INVALID_RECORD_STATE),
        ([(25, 30, [ACCEPT])], "a", ErrorCode.INVALID_REQUEST),
        ([(40, 41, [ACCEPT])], "a", ErrorCode.INVALID_REQUEST),
        ([(10, 12, [ACCEPT]), (12, 14, [ACCEPT])], "a", ErrorCode.INVALID_RECORD_STATE),
        ([(10, 12, [ACCEPT]), (20, 20, [ACCEPT])], "a", ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_one_refused_batch_refuses_all(batches: Any, member_id: str, error: int) -> None:
    """In flight: 10-19 acquired by a, 20-29 released again; below 10 all is accepted."""
    share = world()
    share.acquire("a", 30, batch_size=10)
    share.acknowledge(0, 9, ACCEPT)
    share.acknowledge(20, 29, RELEASE)
    share.answer()
    share.answer()
    share.replies.clear()
    before = share.states
    said = [AcknowledgedBatch(*one) for one in batches]
    share.step(Acknowledge(member_id, said, "now"))
    if error:
        assert share.replies == [("now", error)] and share.states == before and not share.writes
    else:
        while share.writes:
            share.answer()
        assert share.replies == [("now", ErrorCode.NONE)]


def test_with_nothing_in_flight_an_acknowledgement_has_no_record() -> None:
    share = world()
    share.acknowledge(0, 0, ACCEPT)
    assert share.replies == [("ack", ErrorCode.INVALID_RECORD_STATE)]


@pytest.mark.parametrize(
    ("stored", "answered"),
    [(14, 15), (15, 15), (16, 15), (69, 69), (3, 3), (74, 6), (124, 6), (42, -1), (7, -1)],
)
def test_a_write_that_fails_takes_the_change_back(stored: int, answered: int) -> None:
    share = world()
    share.acquire("a", 10)
    before = share.states
    share.acknowledge(0, 9, ACCEPT)
    share.acknowledge(0, 9, ACCEPT)
    assert share.replies.pop() == ("ack", ErrorCode.INVALID_RECORD_STATE)  # in transition
    share.answer(ErrorCode(stored))
    assert share.replies == [("ack", ErrorCode(answered))]
    assert share.states == before and share.machine.start_offset == 0
    assert bool(share.fenced) == (stored in (74, 124))


def test_a_lock_that_runs_out_during_a_failing_write_is_lost() -> None:
    share = world()
    share.acquire("a", 10)
    share.acknowledge(0, 4, ACCEPT)
    share.pass_time(LOCK_MS)
    assert share.states == [(0, 4, "ACKNOWLEDGED", 1), (5, 9, "AVAILABLE", 1)]
    share.answer(ErrorCode.REQUEST_TIMED_OUT)
    share.pass_time(0)
    assert share.states == [(0, 4, "AVAILABLE", 1), (5, 9, "AVAILABLE", 1)]
    assert share.machine.next_fetch_offset == 0


def test_only_the_locks_that_have_run_out_are_lost_and_a_failing_write_undoes_nothing() -> None:
    share = world()
    share.acquire("a", 10)
    share.pass_time(LOCK_MS // 2)
    share.acquire("b", 10)
    share.pass_time(LOCK_MS // 2)
    expected = [(0, 9, "AVAILABLE", 1), (10, 19, "ACQUIRED", 1)]
    assert share.states == expected
    share.answer(ErrorCode.REQUEST_TIMED_OUT)
    assert share.states == expected
    share.pass_time(LOCK_MS // 2)
    assert share.states[1] == (10, 19, "AVAILABLE", 1)


def test_renewal_locks_again_and_writes_nothing() -> None:
    share = world()
    share.acquire("a", 10)
    share.pass_time(LOCK_MS - 1)
    share.acknowledge(0, 4, RENEW)
    assert share.replies == [("ack", ErrorCode.NONE)] and not share.writes
    share.pass_time(1)
    assert share.states == [(0, 4, "ACQUIRED", 1), (5, 9, "AVAILABLE", 1)]
    share.pass_time(LOCK_MS)
    assert share.states[0] == (0, 4, "AVAILABLE", 1)


def test_renewal_may_be_forbidden() -> None:
    share = world(renew=False)
    share.acquire("a", 10)
    share.acknowledge(0, 1, ACCEPT, RENEW)
    assert share.replies == [("ack", ErrorCode.INVALID_RECORD_STATE)] and not share.writes


def test_records_are_delivered_as_often_as_the_limit_says() -> None:
    share = world(limit=2)
    for count in (1, 2):
        assert share.acquire("a", 10) == [(0, 9, count)]
        share.acknowledge(0, 9, RELEASE)
        share.answer()
    assert share.machine.start_offset == 10
    assert share.stored.start_offset == 10


def test_the_end_of_a_session_releases_what_the_member_holds() -> None:
    share = world()
    share.acquire("a", 10)
    share.acquire("b", 10)
    share.release("a")
    assert share.replies == []
    share.answer()
    assert share.replies == [("released", ErrorCode.NONE)]
    assert share.states == [(0, 9, "AVAILABLE", 1), (10, 19, "ACQUIRED", 1)]
    share.release("a")
    assert share.replies[1:] == [("released", ErrorCode.NONE)] and not share.writes


# -- the log's start, letters, restoring -----------------------------------------------------


def test_the_start_of_the_log_takes_records_out_of_flight() -> None:
    share = world()
    share.acquire("a", 20, batch_size=10)
    share.acknowledge(0, 4, ACCEPT)
    share.move_log_start(15)
    assert share.states == [(15, 19, "ACQUIRED", 1)]
    share.answer()
    assert share.machine.start_offset == 15
    share.acknowledge(0, 14, ACCEPT, token="below")
    share.acknowledge(10, 16, ACCEPT, token="across")
    assert share.replies[1:] == [("below", ErrorCode.NONE)]
    share.answer()
    assert share.replies[2:] == [("across", ErrorCode.NONE)] and share.machine.start_offset == 17
    share.move_log_start(60)
    assert share.machine.next_fetch_offset == 60 and share.machine.in_flight_records == 0


def test_a_letter_is_written_between_two_writes_of_the_state() -> None:
    share = world(letters=True)
    share.acquire("a", 10)
    share.acknowledge(0, 1, REJECT)
    assert share.letters == []
    share.answer()
    assert [one[:3] for one in share.letters] == [(0, 1, 1)]
    assert share.letters[0].cause is DeadLetterCause.REJECTED
    assert share.machine.start_offset == 0 and share.stored.offsets[0] == (1, 3)
    share.finish_letters()
    assert share.machine.start_offset == 2
    share.answer(ErrorCode.REQUEST_TIMED_OUT)
    assert share.machine.start_offset == 2


def test_letters_are_resumed_after_a_crash() -> None:
    share = world(letters=True, limit=2)
    share.acquire("a", 10)
    share.acknowledge(0, 1, REJECT)
    share.answer()
    share.crash()
    assert share.letters == [(0, 0, 1, DeadLetterCause.REJECTED), (1, 1, 1, 0)]
    assert share.states[0] == (0, 0, "ARCHIVING", 1)
    assert share.acquire("a", 50) == [(2, 59, 1)]


def test_a_lock_that_runs_out_at_the_limit_has_its_letters_written() -> None:
    share = world(letters=True, limit=2)
    for _ in range(2):
        share.acquire("a", 10)
        share.pass_time(LOCK_MS)
    assert share.states == [(0, 9, "ARCHIVING", 2)] and share.letters == []
    share.answer(ErrorCode.REQUEST_TIMED_OUT)
    share.answer(ErrorCode.REQUEST_TIMED_OUT)
    assert share.letters == [(0, 9, 2, DeadLetterCause.DELIVERY_COUNT)]


def test_what_lies_between_stored_batches_is_available() -> None:
    batches = [StateBatch(12, 13, 2, 1), StateBatch(16, 17, 0, 3)]
    machine = SharePartition.restore(10, batches, ShareLimits())
    machine.begin()
    assert [(run.first, run.last, run.state.name, run.delivery_count) for run in machine.runs] == [
        (10, 11, "AVAILABLE", 0),
        (12, 13, "ACKNOWLEDGED", 1),
        (14, 15, "AVAILABLE", 0),
        (16, 17, "AVAILABLE", 3),
    ]
    assert machine.next_fetch_offset == 10


@pytest.mark.parametrize(
    "batches",
    [
        [StateBatch(9, 12, 2, 1)],
        [StateBatch(12, 11, 2, 1)],
        [StateBatch(12, 14, 2, 1), StateBatch(14, 15, 2, 1)],
        [StateBatch(14, 15, 2, 1), StateBatch(11, 12, 2, 1)],
        [StateBatch(11, 12, 1, 1)],
        [StateBatch(11, 12, 9, 1)],
        [StateBatch(11, 12, 0, -1)],
        [StateBatch(11, (1 << 63) - 1, 2, 1)],
    ],
)
def test_stored_state_that_cannot_be_is_refused(batches: list[StateBatch]) -> None:
    with pytest.raises(InvalidStateError):
        SharePartition.restore(10, batches, ShareLimits())


def test_the_complete_count_has_what_is_on_its_way() -> None:
    share = world()
    share.acquire("a", 20)
    share.acknowledge(5, 9, ACCEPT)
    assert share.writes[0].delivery_complete_count == 5
    share.answer(ErrorCode.REQUEST_TIMED_OUT)
    share.acknowledge(6, 6, REJECT)
    assert share.writes[0].delivery_complete_count == 1


def test_a_write_has_the_start_offset_that_it_leads_to() -> None:
    """Its own changes count, those of another write under way do not: that may fail."""
    share = world()
    share.acquire("a", 20)
    share.acknowledge(0, 4, ACCEPT)
    share.acknowledge(5, 9, ACCEPT)
    assert [write.start_offset for write in share.writes] == [5, 0]
    assert [write.delivery_complete_count for write in share.writes] == [0, 10]
    share.answer()
    share.answer()
    assert share.stored.start_offset == 5 and share.machine.start_offset == 10
    share.crash()
    assert share.machine.start_offset == 10


def test_the_state_takes_as_many_runs_as_there_are_borders() -> None:
    share = ShareWorld(ShareLimits(LOCK_MS, 5, 4_000), [(0, 3_999)])
    share.acquire("a", 4_000)
    assert len(share.machine.runs) == 1
    for first in range(1, 3_999):
        share.acknowledge(first, first, ACCEPT)
        share.answer()
    assert len(share.machine.runs) == 3


def test_letters_are_for_what_is_in_flight_when_they_are_due() -> None:
    share = world(letters=True)
    share.acquire("a", 10)
    share.acknowledge(0, 9, REJECT)
    share.move_log_start(5)
    share.answer()
    assert [(one.first, one.last) for one in share.letters] == [(5, 9)]


def test_complete_neighbours_become_one_run_on_either_side() -> None:
    share = world()
    share.acquire("a", 10)
    for offset in (6, 5, 7):
        share.acknowledge(offset, offset, ACCEPT)
        share.answer()
    assert share.states == [(0, 4, "ACQUIRED", 1), (5, 7, "ACKNOWLEDGED", 1), (8, 9, "ACQUIRED", 1)]


def test_a_fetch_that_waits_is_woken_when_the_log_start_makes_room() -> None:
    share = world()
    share.acquire("a", 10)
    assert MayAcquire() in share.machine.step(LogStartMoved(5), 0)
    assert share.machine.step(LogStartMoved(5), 0) == []


def test_what_was_acquired_together_is_remembered_by_its_parts() -> None:
    share = world()
    share.acquire("a", 10)
    share.acknowledge(3, 3, ACCEPT)
    share.acknowledge(6, 7, RELEASE)
    assert [(run.first, run.batch_records) for run in share.machine.runs] == [
        (first, 10) for first in (0, 3, 4, 6, 8)
    ]


def test_a_lock_that_runs_out_before_the_others_is_watched_first() -> None:
    """The group's locks have become shorter since the others were taken."""
    share = world()
    share.acquire("a", 10)
    assert share.timer_ms == LOCK_MS
    share.machine.limits = ShareLimits(LOCK_MS // 10, max_record_locks=200)
    share.acquire("b", 10)
    assert share.timer_ms == LOCK_MS // 10
    share.pass_time(LOCK_MS // 10)
    assert share.states[:2] == [(0, 9, "ACQUIRED", 1), (10, 19, "AVAILABLE", 1)]
    assert share.timer_ms == LOCK_MS
