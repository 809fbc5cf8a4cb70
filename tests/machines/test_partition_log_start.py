"""The start of the log moves, whoever asks for it: one input, one effect, and who is answered."""

from __future__ import annotations

import pytest

from fencepost.machines.effects import DropPrefix, Persist, Reply
from fencepost.machines.partition import (
    AdvanceLogStart,
    BecomeFollower,
    DeleteRecordsResult,
    FetchBounds,
)
from fencepost.wire.errors import ErrorCode

from .fakes import World
from .test_partition_produce import KEY, Leader
from .test_partition_queries import follower, history

CLIENT = "DeleteRecords"


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
    assert leader.world.replies.keys() & {None} == set(), "nobody asked"


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
