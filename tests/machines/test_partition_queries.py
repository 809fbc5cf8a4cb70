"""The questions a partition answers: every refusal in its order, and where reading ends."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.machines.partition import (
    NOT_LISTED,
    BecomeFollower,
    BecomeLeader,
    EpochEndOffset,
    FetchBounds,
    ListedOffset,
    Partition,
    TimestampLookup,
)
from fencepost.wire.errors import ErrorCode

from .fakes import World
from .test_partition_produce import Leader


def history() -> Leader:
    """Epoch 5 (after 1: offsets 0-9, 3: 10-14) with 15-19; start 2, high watermark 12 of 20."""
    leader = Leader((1, 2))
    leader.produce(1, count=10)
    leader.lead(3, 3, (1, 2), (1, 2))
    leader.produce(1, count=5)
    leader.lead(5, 5, (1, 2), (1, 2))
    leader.produce(1, count=5)
    leader.flush()
    leader.fetched(2, 12)
    leader.log.start_offset = 2
    return leader


BOUNDS = FetchBounds(12, 12, 12, 2, 20, leader_epoch=5)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        # the leader epoch: 74 before 75 before 6
        ({"fetch_offset": 5, "current_leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"fetch_offset": 5, "current_leader_epoch": 6}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"fetch_offset": 5, "current_leader_epoch": 5}, BOUNDS),
        # any negative epoch is none
        ({"fetch_offset": 5, "current_leader_epoch": -1, "last_fetched_epoch": -1}, BOUNDS),
        ({"fetch_offset": 5, "current_leader_epoch": -2}, BOUNDS),
        ({"fetch_offset": 5, "current_leader_epoch": -(1 << 31)}, BOUNDS),
        ({"fetch_offset": 5, "last_fetched_epoch": -2}, BOUNDS),
        ({"fetch_offset": 20, "last_fetched_epoch": -(1 << 31)}, BOUNDS),
        (
            {"fetch_offset": 5, "replica_id": 2, "current_leader_epoch": -2},
            replace(BOUNDS, upper_bound=20),
        ),
        (
            {"fetch_offset": 5, "replica_id": 7, "current_leader_epoch": -2},
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ),
        # in front of the log's start, wherever the epochs part
        ({"fetch_offset": 1, "last_fetched_epoch": 2}, ErrorCode.OFFSET_OUT_OF_RANGE),
        # followers
        ({"fetch_offset": 5, "replica_id": 2}, replace(BOUNDS, upper_bound=20)),
        ({"fetch_offset": 5, "replica_id": -3}, replace(BOUNDS, upper_bound=20)),
        ({"fetch_offset": 5, "replica_id": -2}, BOUNDS),
        ({"fetch_offset": 5, "replica_id": 7}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (
            {"fetch_offset": 5, "replica_id": 7, "current_leader_epoch": 5},
            ErrorCode.UNKNOWN_LEADER_EPOCH,
        ),
        (
            {"fetch_offset": 5, "replica_id": 2, "broker_epoch": 101},
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ),
        (
            {"fetch_offset": 5, "replica_id": 2, "broker_epoch": 103},
            replace(BOUNDS, upper_bound=20),
        ),
        # offsets
        ({"fetch_offset": 1}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"fetch_offset": 2}, BOUNDS),
        ({"fetch_offset": 15}, BOUNDS),
        ({"fetch_offset": 20}, BOUNDS),
        ({"fetch_offset": 21}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"fetch_offset": -1}, ErrorCode.OFFSET_OUT_OF_RANGE),
        # the last fetched epoch
        ({"fetch_offset": 12, "last_fetched_epoch": 3}, BOUNDS),
        ({"fetch_offset": 20, "last_fetched_epoch": 5}, BOUNDS),
        (
            {"fetch_offset": 12, "last_fetched_epoch": 1},
            replace(BOUNDS, diverging=EpochEndOffset(1, 10)),
        ),
        (
            {"fetch_offset": 12, "last_fetched_epoch": 2},
            replace(BOUNDS, diverging=EpochEndOffset(1, 10)),
        ),
        (
            {"fetch_offset": 16, "last_fetched_epoch": 4},
            replace(BOUNDS, diverging=EpochEndOffset(3, 15)),
        ),
        (
            {"fetch_offset": 25, "last_fetched_epoch": 5},
            replace(BOUNDS, diverging=EpochEndOffset(5, 20)),
        ),
        ({"fetch_offset": 20, "last_fetched_epoch": 6}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"fetch_offset": 1, "last_fetched_epoch": 1}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"fetch_offset": 0, "last_fetched_epoch": 0}, ErrorCode.OFFSET_OUT_OF_RANGE),
        # and what comes first when several things are wrong
        (
            {"fetch_offset": 99, "current_leader_epoch": 4, "replica_id": 7},
            ErrorCode.FENCED_LEADER_EPOCH,
        ),
    ],
)
def test_a_fetch_is_refused_in_kafkas_order_or_bounded(
    asked: dict[str, Any], expected: FetchBounds | ErrorCode
) -> None:
    assert history().machine.check_fetch(**asked) == expected


def follower() -> Partition:
    """Follower of broker 2 in epoch 4; nothing in the log."""
    world = World()
    machine = Partition(1, world.logs["t"])
    machine.step(BecomeFollower(2, 4, 4, (1, 2), (1, 2)), 0, 0)
    return machine


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"current_leader_epoch": 3}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 5}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"current_leader_epoch": 4}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"replica_id": 2, "leader_only": False}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"leader_only": False}, FetchBounds(0, 0, 0, 0, 0, leader_epoch=4)),
    ],
)
def test_a_follower_serves_only_consumers_that_may_read_from_it(
    asked: dict[str, Any], expected: FetchBounds | ErrorCode
) -> None:
    assert follower().check_fetch(fetch_offset=0, **asked) == expected


def test_committed_readers_stop_at_the_first_open_transaction() -> None:
    leader = history()
    producers = leader.log.producers
    producers._ongoing[4] = 9  # a transaction that began at 4
    bounds = leader.machine.check_fetch(fetch_offset=3, isolation=1)
    assert bounds == replace(BOUNDS, upper_bound=4, last_stable_offset=4)
    assert leader.machine.check_fetch(fetch_offset=3) == replace(BOUNDS, last_stable_offset=4)
    producers._ongoing.clear()
    producers._ongoing[17] = 9  # beyond the high watermark: that one bounds
    assert leader.machine.last_stable_offset == 12


@pytest.mark.parametrize(
    ("current_leader_epoch", "epoch", "expected"),
    [
        (4, 3, ErrorCode.FENCED_LEADER_EPOCH),
        (6, 3, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (5, 5, EpochEndOffset(5, 20)),
        (-1, 5, EpochEndOffset(5, 20)),
        (-1, 4, EpochEndOffset(3, 15)),
        (-1, 3, EpochEndOffset(3, 15)),
        (-1, 2, EpochEndOffset(1, 10)),
        (-1, 1, EpochEndOffset(1, 10)),
        (-1, 0, EpochEndOffset(0, 0)),
        (-1, -1, EpochEndOffset(-1, -1)),
        (-1, 6, EpochEndOffset(-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_larger_one_begins(
    current_leader_epoch: int, epoch: int, expected: EpochEndOffset | ErrorCode
) -> None:
    assert history().machine.offset_for_leader_epoch(current_leader_epoch, epoch) == expected


def test_a_stale_client_that_asks_a_follower_learns_that_it_is_stale() -> None:
    machine = follower()
    assert machine.offset_for_leader_epoch(3, 1) is ErrorCode.FENCED_LEADER_EPOCH
    assert machine.offset_for_leader_epoch(4, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def caught_up() -> Leader:
    leader = history()
    leader.fetched(2, 18)
    return leader


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"timestamp_ms": -1}, ListedOffset(18, -1, 5)),
        ({"timestamp_ms": -1, "isolation": None}, ListedOffset(20, -1, 5)),
        ({"timestamp_ms": -2}, ListedOffset(2, -1, 1)),
        ({"timestamp_ms": -4}, ListedOffset(2, -1, 1)),
        ({"timestamp_ms": -5}, NOT_LISTED),
        ({"timestamp_ms": -6}, NOT_LISTED),
        ({"timestamp_ms": -7}, ErrorCode.UNSUPPORTED_VERSION),
        ({"timestamp_ms": -3}, TimestampLookup(-3, 18, False)),
        ({"timestamp_ms": 123}, TimestampLookup(123, 18, False)),
        ({"timestamp_ms": -1, "current_leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"timestamp_ms": -1, "current_leader_epoch": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_special_timestamps_are_ends_of_the_log_for_the_reader(
    asked: dict[str, Any], expected: object
) -> None:
    assert caught_up().machine.list_offset(**asked) == expected


def test_the_latest_offset_is_not_available_until_the_high_watermark_reaches_the_epoch() -> None:
    """KIP-207: an earlier leader may have shown more than we yet know to be safe."""
    leader = history()
    assert leader.machine.list_offset(timestamp_ms=-1) is ErrorCode.OFFSET_NOT_AVAILABLE
    assert leader.machine.list_offset(timestamp_ms=-2) == ListedOffset(2, -1, 1)
    lookup = leader.machine.list_offset(timestamp_ms=7)
    assert isinstance(lookup, TimestampLookup)
    assert lookup.settle((11, 7, 3)) == ListedOffset(11, 7, 3)
    assert lookup.settle((13, 7, 3)) is ErrorCode.OFFSET_NOT_AVAILABLE
    assert lookup.settle(None) is ErrorCode.OFFSET_NOT_AVAILABLE
    of_a_replica = leader.machine.list_offset(timestamp_ms=-1, isolation=None)
    assert of_a_replica == ListedOffset(20, -1, 5), "a follower asks for the log's end"
    leader.fetched(2, 15)
    assert leader.machine.list_offset(timestamp_ms=-1) == ListedOffset(15, -1, 5)


def test_a_record_that_may_not_be_read_yet_is_not_found() -> None:
    lookup = TimestampLookup(7, 18, False)
    assert lookup.settle((18, 7, 5)) == NOT_LISTED
    assert lookup.settle(None) == NOT_LISTED
    assert lookup.settle((17, 9, None)) == ListedOffset(17, 9, -1)


def test_a_replica_believes_its_checkpoint_within_its_log() -> None:
    world = World()
    log = world.logs["t"]
    assert Partition(1, log, high_watermark=50).high_watermark == 0
    log.start_offset = log.end_offset = 30
    assert Partition(1, log, high_watermark=0).high_watermark == 30
    machine = Partition(1, log, high_watermark=30, durable_offset=99)
    assert machine.durable_offset == 30
    machine.step(BecomeLeader(1, 1, (1,), (1,), {1: 1}), 0, 0)
    assert machine.high_watermark == 30
