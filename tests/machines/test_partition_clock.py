"""A wall clock that is set, forward or back: requests in purgatory have no less time left."""

from __future__ import annotations

import pytest

from fencepost.machines.partition import (
    AlterPartition,
    AlterPartitionAnswered,
    PartitionConfig,
)
from fencepost.wire.errors import ErrorCode

from .test_partition_produce import KEY, Leader

HOUR_MS = 3_600_000
JUMPS_MS = pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS, 1, -1])
LAG_MS = 30_000


def set_clock(leader: Leader, by_ms: int) -> None:
    leader.world.wall_ahead += by_ms


@JUMPS_MS
def test_a_produce_waits_as_long_as_it_would_have(by_ms: int) -> None:
    leader = Leader((1, 2))
    token = leader.produce(timeout_ms=1_000)
    leader.world.advance(400)
    set_clock(leader, by_ms)
    leader.world.advance(599)
    assert token not in leader.world.replies
    leader.world.advance(1)
    assert leader.world.replies[token].error_code is ErrorCode.REQUEST_TIMED_OUT


@JUMPS_MS
def test_one_that_comes_after_it_is_not_mistaken_for_an_old_one(by_ms: int) -> None:
    leader = Leader((1, 2))
    early = leader.produce(timeout_ms=1_000)
    set_clock(leader, by_ms)
    late = leader.produce(timeout_ms=500)
    leader.world.advance(500)
    assert late in leader.world.replies and early not in leader.world.replies
    leader.world.advance(500)
    assert early in leader.world.replies


@JUMPS_MS
def test_a_follower_falls_behind_by_silence_alone(by_ms: int) -> None:
    leader = Leader((1, 2), config=PartitionConfig(replica_lag_time_max_ms=LAG_MS))
    leader.produce()
    set_clock(leader, by_ms)
    leader.world.advance(LAG_MS)
    asked = [m for _, _, m in leader.world.take_sent() if isinstance(m, AlterPartition)]
    assert not asked, "it has as long as it ever had"
    leader.world.advance(2 * LAG_MS)
    asked = [m for _, _, m in leader.world.take_sent() if isinstance(m, AlterPartition)]
    assert [[r.broker_id for r in one.new_isr] for one in asked[:1]] == [[1]]


@JUMPS_MS
def test_the_controller_is_asked_again_as_soon_as_it_would_have_been(by_ms: int) -> None:
    leader = Leader((1, 2), config=PartitionConfig(replica_lag_time_max_ms=LAG_MS))
    leader.produce()
    leader.world.advance(3 * LAG_MS)
    assert leader.world.take_sent()
    leader.feed(AlterPartitionAnswered(ErrorCode.NOT_CONTROLLER))
    set_clock(leader, by_ms)
    leader.world.advance(leader.machine.config.alter_partition_retry_ms)
    assert [key for key, _, m in leader.world.take_sent() if isinstance(m, AlterPartition)] == [KEY]
