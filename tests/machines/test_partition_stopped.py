"""A replica ends: its partition was deleted, or is another broker's now. No epoch is made up."""

from __future__ import annotations

import pytest

from fencepost.machines.effects import Append, DropPrefix, Persist, Truncate
from fencepost.machines.partition import (
    AdvanceLogStart,
    BecomeLeader,
    Fetched,
    FollowerFetched,
    StopReplica,
)
from fencepost.wire.errors import ErrorCode

from .test_partition_produce import Leader
from .test_partition_queries import follower

ENDS = [
    pytest.param(True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="deleted"),
    pytest.param(False, ErrorCode.NOT_LEADER_OR_FOLLOWER, id="assigned-to-others"),
]


@pytest.mark.parametrize(("is_deleted", "error"), ENDS)
def test_produces_that_wait_for_an_acknowledgement_get_the_reason_of_the_stop(
    is_deleted: bool, error: ErrorCode
) -> None:
    leader = Leader((1, 2))
    waiting = [leader.produce(1), leader.produce(-1)]
    done = leader.produce(0)
    leader.feed(StopReplica(is_deleted))
    assert [leader.error(token) for token in waiting] == [error, error]
    assert leader.error(done) is ErrorCode.NONE
    assert leader.machine.leader_epoch == 1, "there is no newer leader epoch"


@pytest.mark.parametrize(("is_deleted", "error"), ENDS)
def test_every_question_is_answered_with_the_end(is_deleted: bool, error: ErrorCode) -> None:
    leader = Leader()
    leader.feed(StopReplica(is_deleted))
    assert leader.error(leader.produce(1)) is error
    leader.feed(AdvanceLogStart(-1, "delete"))
    assert leader.world.replies["delete"].error_code is error
    for answer in (
        leader.machine.check_fetch(fetch_offset=0),
        leader.machine.check_fetch(fetch_offset=0, current_leader_epoch=9),
        leader.machine.offset_for_leader_epoch(-1, 1),
        leader.machine.list_offset(timestamp_ms=-1),
    ):
        assert answer is error
    assert not leader.machine.is_leader and not leader.machine.is_offline


def test_a_stopped_replica_does_nothing_any_more() -> None:
    leader = Leader((1, 2))
    leader.produce(-1)
    leader.feed(StopReplica(is_deleted=True))
    steps = leader.world.timers_set
    leader.lead(9, 9, (1,), (1,))
    leader.fetched(2, 1)
    leader.flush()
    leader.feed(AdvanceLogStart(0))
    assert leader.machine.leader_epoch == 1 and leader.machine.high_watermark == 0
    assert leader.world.timers_set == steps and leader.world.sent == []


def test_a_follower_that_is_stopped_appends_and_cuts_nothing() -> None:
    machine = follower()
    machine.step(StopReplica(is_deleted=False), 0, 0)
    effects = [
        *machine.step(Fetched(4, 0, [], 5), 0, 0),
        *machine.step(BecomeLeader(5, 5, (1, 2), (1, 2), {}), 0, 0),
        *machine.step(FollowerFetched(2, 0), 0, 0),
        *machine.step(AdvanceLogStart(0), 0, 0),
    ]
    works = [e.work for e in effects if isinstance(e, Persist)]
    assert not any(isinstance(work, (Append, Truncate, DropPrefix)) for work in works)
    assert effects == []
