"""The start of the log moves by retention or a request: one input, one effect, one answer."""

from __future__ import annotations

import pytest

from fencepost.machines.effects import DropPrefix, Persist, Reply
from fencepost.machines.partition import (
    AdvanceLogStart,
    BecomeFollower,
    BrokersChanged,
    DeleteRecordsResult,
    FetchBounds,
    FollowerFetched,
    StopReplica,
)
from fencepost.machines.partition.log_start import MAX_WAITING
from fencepost.wire.errors import ErrorCode

from .fakes import World
from .test_partition_produce import KEY, Leader
from .test_partition_queries import follower, history

CLIENT = "DeleteRecords"


def follower_starts_at(leader: Leader, offset: int, replica_id: int = 2) -> None:
    """A follower tells with a fetch where its log starts."""
    leader.feed(FollowerFetched(replica_id, 12, 100 + replica_id, log_start_offset=offset))


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        pytest.param(-1, 12, id="the-high-watermark"),
        pytest.param(12, 12, id="the-high-watermark-by-its-number"),
        pytest.param(7, 7, id="below-it"),
        pytest.param(2, 2, id="where-the-log-starts-already"),
        pytest.param(0, 2, id="less-than-is-gone-already"),
        pytest.param(13, ErrorCode.OFFSET_OUT_OF_RANGE, id="what-consumers-may-not-read-yet"),
        pytest.param(-2, ErrorCode.OFFSET_OUT_OF_RANGE, id="negative"),
    ],
)
def test_a_leader_deletes_records_below_the_high_watermark(
    offset: int, expected: int | ErrorCode
) -> None:
    leader = history()
    follower_starts_at(leader, 12)
    leader.feed(AdvanceLogStart(offset, CLIENT))
    answer = leader.world.replies[CLIENT]
    if isinstance(expected, ErrorCode):
        assert answer == DeleteRecordsResult(expected, -1)
        assert leader.log.start_offset == 2
    else:
        assert answer == DeleteRecordsResult(ErrorCode.NONE, expected)
        assert leader.machine.log_start_offset == leader.log.start_offset == expected


def test_a_fetch_below_the_new_start_is_out_of_range_and_one_at_it_is_not() -> None:
    leader = history()
    leader.feed(AdvanceLogStart(7, CLIENT))
    assert leader.machine.check_fetch(fetch_offset=6) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert leader.machine.check_fetch(fetch_offset=7) == FetchBounds(12, 12, 12, 7, 20, 5)


def test_only_a_leader_deletes_for_a_client() -> None:
    machine = follower()
    result = DeleteRecordsResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert machine.step(AdvanceLogStart(-1, CLIENT), 0, 0) == [Reply(CLIENT, result)]


def test_retention_moves_the_start_on_leaders_and_followers() -> None:
    leader = history()
    leader.feed(AdvanceLogStart(10))
    assert leader.log.start_offset == 10
    leader.feed(BecomeFollower(2, 6, 6, (1, 2), (1, 2)))
    leader.feed(AdvanceLogStart(12))
    assert leader.log.start_offset == 12
    assert leader.world.replies.keys() & {None} == set(), "no request is answered"


@pytest.mark.parametrize("offset", [-1, 13, 20])
def test_retention_deletes_nothing_that_consumers_may_not_read_yet(offset: int) -> None:
    assert history().machine.step(AdvanceLogStart(offset), 0, 0) == []


def test_what_was_deleted_before_may_have_left_files_behind() -> None:
    """After a restart the start is what was written down, and segments in front of it are left."""
    assert history().machine.step(AdvanceLogStart(2), 0, 0) == [Persist(DropPrefix(2))]


def test_a_disk_that_refuses_answers_the_client_once_and_ends_the_replica() -> None:
    leader = history()
    leader.log.refuses = "EIO"
    leader.feed(AdvanceLogStart(7, CLIENT))
    assert leader.world.replies[CLIENT] == DeleteRecordsResult(ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert leader.world.failures[KEY] == "EIO"
    leader.feed(AdvanceLogStart(7, "again"))
    assert leader.world.replies["again"].error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert leader.machine.step(AdvanceLogStart(7), 0, 0) == []


def test_who_was_answered_is_not_answered_again_when_the_disk_fails_later() -> None:
    leader = history()
    follower_starts_at(leader, 12)
    leader.feed(AdvanceLogStart(7, CLIENT))
    leader.world.driver.disk_failed(KEY, "EIO")  # the world refuses a second answer
    assert leader.world.replies[CLIENT].error_code is ErrorCode.NONE


def test_the_epoch_in_front_of_the_start_is_still_known() -> None:
    leader = Leader()
    leader.produce(1, count=4)
    leader.flush()
    leader.feed(AdvanceLogStart(-1, CLIENT))
    assert list(leader.log.epochs) == [(1, 4)]
    assert isinstance(leader.world, World)


# -- the low watermark ------------------------------------------------------------------------


def deletes(leader: Leader, offset: int = 7, timeout_ms: int = 1_000) -> None:
    leader.feed(AdvanceLogStart(offset, CLIENT, leader.world.now + timeout_ms))


def test_a_deletion_is_answered_when_every_live_replica_has_deleted() -> None:
    """KIP-107: the low watermark."""
    leader = history()
    deletes(leader)
    assert leader.log.start_offset == 7, "the leader does not wait"
    follower_starts_at(leader, 6)
    assert CLIENT not in leader.world.replies
    follower_starts_at(leader, 7)
    assert leader.world.replies[CLIENT] == DeleteRecordsResult(ErrorCode.NONE, 7)


def test_a_deletion_that_takes_too_long_is_told_how_far_it_went() -> None:
    leader = history()
    follower_starts_at(leader, 3)
    deletes(leader, timeout_ms=1_000)
    leader.world.advance(999)
    assert CLIENT not in leader.world.replies
    leader.world.advance(1)
    assert leader.world.replies[CLIENT] == DeleteRecordsResult(ErrorCode.REQUEST_TIMED_OUT, 3)
    follower_starts_at(leader, 7)  # the world refuses a second answer


def test_a_deletion_without_time_to_wait_does_not_wait() -> None:
    leader = history()
    deletes(leader, timeout_ms=0)
    assert leader.world.replies[CLIENT].error_code is ErrorCode.REQUEST_TIMED_OUT
    assert not leader.world.timers.get((KEY, "delete-records"))


def test_deletions_have_deadlines_of_their_own() -> None:
    leader = history()
    leader.feed(AdvanceLogStart(7, "late", leader.world.now + 900))
    leader.feed(AdvanceLogStart(8, "early", leader.world.now + 300))
    follower_starts_at(leader, 5)
    leader.world.advance(300)
    assert leader.world.replies.keys() >= {"early"} and "late" not in leader.world.replies
    leader.world.advance(600)
    assert leader.world.replies["late"].error_code is ErrorCode.REQUEST_TIMED_OUT


def test_the_replica_of_a_fenced_broker_is_not_waited_for() -> None:
    leader = history()
    deletes(leader)
    leader.feed(BrokersChanged({1: 101}))
    assert leader.world.replies[CLIENT] == DeleteRecordsResult(ErrorCode.NONE, 7)


def test_a_replica_that_is_taken_away_is_not_waited_for() -> None:
    leader = history()
    deletes(leader)
    leader.lead(5, 6, (1,), (1,))
    assert leader.world.replies[CLIENT] == DeleteRecordsResult(ErrorCode.NONE, 7)


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (BecomeFollower(2, 6, 6, (1, 2), (1, 2)), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (StopReplica(is_deleted=True), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_deletion_that_waits_hears_that_leadership_has_gone(
    end: object, error: ErrorCode
) -> None:
    leader = history()
    deletes(leader)
    leader.feed(end)
    assert leader.world.replies[CLIENT] == DeleteRecordsResult(error, -1)


def test_a_deletion_that_waits_hears_of_a_disk_that_fails() -> None:
    leader = history()
    deletes(leader)
    leader.world.driver.disk_failed(KEY, "EIO")
    assert leader.world.replies[CLIENT].error_code is ErrorCode.KAFKA_STORAGE_ERROR


def test_so_many_deletions_wait_and_no_more() -> None:
    leader = history()
    for token in range(MAX_WAITING + 1):
        leader.feed(AdvanceLogStart(7, (CLIENT, token), leader.world.now + 1_000))
    answered = [token for token in leader.world.replies if isinstance(token, tuple)]
    assert answered == [(CLIENT, MAX_WAITING)]
    follower_starts_at(leader, 7)
    assert (CLIENT, 0) in leader.world.replies
