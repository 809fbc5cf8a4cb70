"""Blocks of plain batches: one answer for all of it, as its batches would have had one by one."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.partition import (
    ConfigChanged,
    PartitionConfig,
    ProduceBlock,
    ProduceResult,
)
from fencepost.wire.errors import ErrorCode

from .fakes import batch
from .test_partition_produce import KEY, Leader


class Block(list[RecordBatch]):
    """Batches that stand together, as far as a machine looks at them."""

    @property
    def offsets(self) -> int:
        return sum(one.header.last_offset_delta + 1 for one in self)

    @property
    def producers(self) -> list[tuple[int, Any]]:
        return [(n, one.header) for n, one in enumerate(self) if one.header.producer_id >= 0]


def feed(
    leader: Leader, *producers: tuple[int, int, int], acks: int = -1, timeout_ms: int = 1000
) -> None:
    """A block of two records of each; "all" is answered, or the places of its batches are."""
    leader.world.replies.clear()
    block: Any = Block(RecordBatch.parse(batch(2, producer=one)) for one in producers)
    deadline_ms = leader.world.now + timeout_ms
    leader.feed(ProduceBlock(block, acks, "all", lambda place: place, deadline_ms))


NO_PRODUCER = (-1, -1, -1)


@pytest.mark.parametrize(("acks", "is_done_at"), [(0, 0), (1, 1), (-1, 2)])
def test_a_block_is_answered_as_one_when_all_of_it_is_as_safe_as_was_asked(acks, is_done_at):
    leader = Leader((1, 2))
    feed(leader, NO_PRODUCER, (7, 0, 0), (7, 0, 2), acks=acks)
    answered = [set(leader.world.replies)]
    leader.flush()
    leader.fetched(2, 0)
    leader.fetched(2, 4)
    answered.append(set(leader.world.replies))
    leader.fetched(2, 6)
    answered.append(set(leader.world.replies))
    assert answered == [set()] * is_done_at + [{"all"}] * (3 - is_done_at)
    assert leader.world.replies["all"] == ProduceResult(ErrorCode.NONE, 0, -1, 0)
    assert leader.machine.waiting_produces == 0


def test_a_block_that_is_not_replicated_in_time_times_out() -> None:
    leader = Leader((1, 2))
    leader.fetched(2, 0)
    leader.world.advance(20_000)
    assert (KEY, "isr") not in leader.world.timers, "who has everything is in sync"
    feed(leader, NO_PRODUCER, NO_PRODUCER, timeout_ms=500)
    leader.flush()
    assert leader.machine.waiting_produces == 2
    assert (KEY, "isr") in leader.world.timers, "followers are looked after"
    leader.world.advance(499)
    assert not leader.world.replies
    leader.world.advance(1)
    assert leader.world.replies == {"all": ProduceResult(ErrorCode.REQUEST_TIMED_OUT)}


def test_batches_of_a_topic_with_append_times_are_told_theirs() -> None:
    leader = Leader(config=PartitionConfig(log_append_time=True))
    feed(leader, NO_PRODUCER, NO_PRODUCER, acks=0)
    time_ms = leader.world.wall_ms()
    assert leader.world.replies == {
        0: ProduceResult(ErrorCode.NONE, 0, time_ms, 0),
        1: ProduceResult(ErrorCode.NONE, 2, time_ms, 0),
    }


def test_too_few_in_sync_refuse_those_that_want_all() -> None:
    leader = Leader((1, 2, 3), isr=(1,))
    leader.feed(ConfigChanged(PartitionConfig(min_insync_replicas=2)))
    feed(leader, NO_PRODUCER, NO_PRODUCER)
    refused = ProduceResult(ErrorCode.NOT_ENOUGH_REPLICAS, log_start_offset=0)
    assert leader.world.replies == {0: refused, 1: refused}
    assert leader.machine.log_end_offset == 0
    feed(leader, NO_PRODUCER, acks=1)
    leader.flush()
    assert leader.world.replies == {"all": ProduceResult(ErrorCode.NONE, 0, -1, 0)}


@pytest.mark.parametrize(
    ("producer", "error"),
    [
        ((7, 0, 0), ErrorCode.NONE),
        ((7, 0, 4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ((7, -1, 2), ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
    ids=["duplicate", "gap", "fenced"],
)
def test_what_is_refused_takes_nothing_with_it(producer, error) -> None:
    leader = Leader(flush_at_once=True)
    feed(leader, (7, 0, 0))
    feed(leader, NO_PRODUCER, producer, NO_PRODUCER)
    codes = {place: answer.error_code for place, answer in leader.world.replies.items()}
    assert codes == {0: ErrorCode.NONE, 1: error, 2: ErrorCode.NONE}
    assert leader.machine.log_end_offset == 6


def test_who_leads_no_longer_refuses_each() -> None:
    leader = Leader()
    leader.machine.leader_state = None
    feed(leader, NO_PRODUCER, NO_PRODUCER)
    refused = ProduceResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert leader.world.replies == {0: refused, 1: refused}
