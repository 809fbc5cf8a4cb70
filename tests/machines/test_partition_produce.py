"""Produce through the real driver: what is taken, when it is acknowledged, what fails it."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.partition import (
    AlterPartitionAnswered,
    BecomeFollower,
    BecomeLeader,
    ConfigChanged,
    Diverged,
    FollowerFetched,
    Partition,
    PartitionConfig,
    Produce,
    ProduceResult,
)
from fencepost.machines.partition.appending import Appending
from fencepost.wire.errors import ErrorCode

from .fakes import World, batch

KEY = "t-0"


class Leader:
    """A leader of one partition among `replicas`, broker 1."""

    def __init__(
        self,
        replicas: tuple[int, ...] = (1,),
        *,
        isr: tuple[int, ...] | None = None,
        config: PartitionConfig | None = None,
        flush_at_once: bool = False,
    ) -> None:
        self.world = World(flush_at_once=flush_at_once)
        self.log = self.world.logs[KEY]
        self.machine = Partition(1, self.log, config=config)
        self.world.driver.add(KEY, self.machine)
        self.eligible = {broker: 100 + broker for broker in replicas}
        self.lead(1, 1, replicas, isr or replicas)
        self.tokens = 0

    def feed(self, input_: object) -> None:
        self.world.driver.feed(KEY, input_)

    def lead(
        self,
        leader_epoch: int,
        partition_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
    ) -> None:
        self.feed(BecomeLeader(leader_epoch, partition_epoch, replicas, isr, self.eligible))

    def produce(
        self,
        acks: int = -1,
        *,
        count: int = 1,
        producer: tuple[int, int, int] = (-1, -1, -1),
        timeout_ms: int = 30_000,
    ) -> int:
        self.tokens += 1
        data = batch(count, producer=producer)
        deadline_ms = self.world.now + timeout_ms
        self.feed(Produce(RecordBatch.parse(data), acks, self.tokens, deadline_ms))
        return self.tokens

    def fetched(self, replica_id: int, offset: int, leader_epoch: int = -1) -> None:
        broker_epoch = 100 + replica_id
        self.feed(FollowerFetched(replica_id, offset, broker_epoch, leader_epoch))

    def flush(self) -> None:
        self.world.flush(KEY)

    def answer(self, token: int) -> ProduceResult | None:
        result = self.world.replies.get(token)
        assert result is None or isinstance(result, ProduceResult)
        return result

    def error(self, token: int) -> ErrorCode | None:
        result = self.answer(token)
        return None if result is None else result.error_code


def test_acks_all_is_answered_when_the_batch_is_durable() -> None:
    leader = Leader()
    token = leader.produce(count=3)
    assert leader.answer(token) is None
    assert (leader.machine.log_end_offset, leader.machine.high_watermark) == (3, 0)
    leader.flush()
    assert leader.answer(token) == ProduceResult(ErrorCode.NONE, 0, -1, 0)
    assert leader.machine.high_watermark == 3


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_shell_that_calls_persisted_at_once_acknowledges_from_the_page_cache(acks: int) -> None:
    leader = Leader(flush_at_once=True)
    first, second = leader.produce(acks, count=2), leader.produce(acks)
    assert leader.answer(first) == ProduceResult(ErrorCode.NONE, 0, -1, 0)
    assert leader.answer(second) == ProduceResult(ErrorCode.NONE, 2, -1, 0)
    assert leader.machine.high_watermark == 3


def test_acks_zero_is_done_with_the_append_and_not_shown() -> None:
    leader = Leader()
    token = leader.produce(0)
    assert leader.error(token) is ErrorCode.NONE
    assert leader.machine.high_watermark == 0


def test_acks_one_is_visible_when_it_is_acknowledged_by_the_only_replica() -> None:
    leader = Leader()
    first, second = leader.produce(1, count=3), leader.produce(1)
    assert leader.answer(first) is None
    leader.log.durable_offset = 3
    leader.world.driver.persisted(KEY, 3)
    assert leader.answer(first) == ProduceResult(ErrorCode.NONE, 0, -1, 0)
    assert leader.machine.high_watermark == 3
    assert leader.answer(second) is None, "the flush began before this append"
    leader.flush()
    assert (leader.error(second), leader.machine.high_watermark) == (ErrorCode.NONE, 4)


def test_the_high_watermark_has_moved_when_acks_one_is_answered() -> None:
    leader = Leader()
    seen: list[int] = []
    leader.world.reply = lambda token, value: seen.append(  # type: ignore[method-assign]
        leader.machine.high_watermark
    )
    leader.produce(1)
    leader.flush()
    assert seen == [1]


def test_acks_one_waits_for_the_leaders_disk_and_for_no_other_replica() -> None:
    leader = Leader((1, 2))
    token = leader.produce(1)
    leader.fetched(2, 1)
    assert leader.answer(token) is None, "the other has it, and the leader's disk has not"
    leader = Leader((1, 2))
    one, all_in_sync = leader.produce(1), leader.produce(-1)
    leader.flush()
    assert leader.error(one) is ErrorCode.NONE
    assert leader.answer(all_in_sync) is None
    assert leader.machine.high_watermark == 0


def test_acks_one_has_no_deadline() -> None:
    """As in Kafka, where `timeout.ms` counts for acks=all alone."""
    leader = Leader()
    token = leader.produce(1, timeout_ms=0)
    leader.world.advance(60_000)
    assert leader.answer(token) is None and not leader.world.timers
    leader.flush()
    assert leader.error(token) is ErrorCode.NONE


def test_acks_one_costs_no_timer() -> None:
    leader = Leader((1, 2))
    before = leader.world.timers_set
    leader.produce(1)
    assert leader.world.timers_set == before


def test_an_in_sync_set_below_the_minimum_is_nothing_to_acks_one() -> None:
    leader = Leader((1, 2), config=PartitionConfig(min_insync_replicas=2))
    one, all_in_sync = leader.produce(1), leader.produce(-1)
    leader.lead(1, 2, (1, 2), (1,))
    assert leader.error(all_in_sync) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert leader.answer(one) is None
    leader.flush()
    assert leader.error(one) is ErrorCode.NONE


def test_one_flush_releases_all_before_it_and_none_behind() -> None:
    leader = Leader()
    first, second = leader.produce(), leader.produce()
    leader.flush()
    third = leader.produce()
    assert [leader.error(t) for t in (first, second, third)] == [0, 0, None]


def test_acks_all_is_not_answered_one_record_early() -> None:
    leader = Leader((1, 2))
    tokens = [leader.produce(count=2), leader.produce(), leader.produce()]
    leader.flush()
    answered = []
    for offset in range(5):
        leader.fetched(2, offset)
        answered.append(sum(leader.answer(token) is not None for token in tokens))
    assert answered == [0, 0, 1, 2, 3]


def test_the_leader_stamps_offset_and_epoch() -> None:
    leader = Leader()
    leader.produce(count=2)
    leader.produce()
    stamps = [(h.base_offset, h.partition_leader_epoch) for h, _ in leader.log.batches]
    assert stamps == [(0, 1), (2, 1)]


@pytest.mark.parametrize("acks", [2, -2, 7])
def test_acks_other_than_all_0_and_1_are_refused(acks: int) -> None:
    leader = Leader()
    assert leader.error(leader.produce(acks)) is ErrorCode.INVALID_REQUIRED_ACKS
    assert leader.log.end_offset == 0


def test_log_append_time_is_in_the_answer() -> None:
    leader = Leader(config=PartitionConfig(log_append_time=True), flush_at_once=True)
    result = leader.answer(leader.produce())
    assert result is not None and result.log_append_time_ms == leader.world.wall_ms()


# Leadership


def test_a_replica_that_leads_nothing_refuses() -> None:
    world = World()
    machine = Partition(1, world.logs[KEY])
    world.driver.add(KEY, machine)
    data = batch()
    world.driver.feed(KEY, Produce(RecordBatch.parse(data), 1, "t", 0))
    assert world.replies["t"] == ProduceResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_losing_leadership_answers_all_who_wait() -> None:
    leader = Leader()
    first, second = leader.produce(), leader.produce(1)
    leader.feed(BecomeFollower(2, 2, 2, (1, 2), (1, 2)))
    assert [leader.error(t) for t in (first, second)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert leader.error(leader.produce()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.flush()  # and the flush that was on its way changes nothing


@pytest.mark.parametrize("acks", [-1, 1])
def test_leading_again_in_a_newer_epoch_answers_all_who_waited_in_the_old(acks: int) -> None:
    leader = Leader()
    token = leader.produce(acks)
    leader.lead(3, 3, (1,), (1,))
    assert leader.error(token) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.flush()


def test_a_former_leader_that_is_cut_acknowledges_nothing_of_what_it_had() -> None:
    leader = Leader((1, 2))
    leader.produce(1)
    leader.flush()
    lost = leader.produce(1)
    leader.feed(BecomeFollower(2, 2, 2, (1, 2), (2,)))
    leader.feed(Diverged(2, 1, 1))
    assert (leader.machine.log_end_offset, leader.machine.durable_offset) == (1, 1)
    leader.lead(3, 3, (1, 2), (1, 2))
    again = leader.produce(1)
    assert leader.error(lost) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.answer(again) is None, "the offset had been written, and is not on the disk"
    leader.flush()
    assert leader.answer(again) == ProduceResult(ErrorCode.NONE, 1, -1, 0)


def test_metadata_without_a_leader_end_the_leadership_within_its_epoch() -> None:
    """So a partition that is to be deleted answers who waits."""
    leader = Leader((1, 2))
    leader.lead(1, 2, (1, 2), (1,))
    leader.fetched(2, 0)
    assert (KEY, "alter-partition") in leader.world.timers
    token = leader.produce()
    leader.feed(BecomeFollower(-1, 1, 2, (1, 2), (1,)))
    assert leader.error(token) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not leader.machine.is_leader
    assert (KEY, "alter-partition") not in leader.world.timers


def test_metadata_of_an_older_leader_epoch_change_nothing() -> None:
    leader = Leader()
    leader.lead(5, 5, (1,), (1,))
    leader.feed(BecomeFollower(2, 4, 4, (1, 2), (2,)))
    leader.lead(3, 9, (1, 2), (1,))
    assert leader.machine.is_leader and leader.machine.leader_epoch == 5


def test_a_new_leader_names_its_epoch_before_it_takes_a_batch() -> None:
    leader = Leader()
    assert list(leader.log.epochs) == [(1, 0)]
    leader.produce(count=4)
    leader.lead(4, 2, (1,), (1,))
    assert list(leader.log.epochs) == [(1, 0), (4, 4)]
    leader.lead(6, 3, (1,), (1,))  # nothing was written in epoch 4
    assert list(leader.log.epochs) == [(1, 0), (6, 4)]


# min.insync.replicas


def test_too_few_in_sync_refuses_acks_all_before_the_append_and_nothing_else() -> None:
    leader = Leader((1, 2, 3), isr=(1,), config=PartitionConfig(min_insync_replicas=2))
    assert leader.error(leader.produce(-1)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.log.end_offset == 0
    token = leader.produce(1)
    leader.flush()
    assert leader.error(token) is ErrorCode.NONE
    assert leader.machine.high_watermark == 0, "frozen under the minimum (KIP-966)"


def test_the_minimum_is_never_more_than_there_are_replicas() -> None:
    leader = Leader(config=PartitionConfig(min_insync_replicas=3), flush_at_once=True)
    assert leader.error(leader.produce()) is ErrorCode.NONE


def test_a_set_that_shrinks_below_the_minimum_answers_who_waits() -> None:
    leader = Leader((1, 2), config=PartitionConfig(min_insync_replicas=2))
    leader.fetched(2, 0)
    token = leader.produce(timeout_ms=600_000)
    leader.flush()
    assert leader.answer(token) is None
    leader.world.advance(61_000)
    assert next(m.new_isr for _, _, m in leader.world.take_sent()) == ((1, 101),)
    leader.feed(AlterPartitionAnswered(0, 1, 2, (1,)))
    assert leader.error(token) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert leader.machine.high_watermark == 0


def test_after_append_is_answered_at_once_not_at_the_deadline() -> None:
    leader = Leader((1, 2), config=PartitionConfig(min_insync_replicas=2))
    token = leader.produce(timeout_ms=600_000)
    leader.flush()
    leader.lead(1, 2, (1, 2), (1,))
    assert leader.error(token) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_raised_minimum_counts_from_now_on() -> None:
    leader = Leader((1, 2), config=PartitionConfig(min_insync_replicas=1), isr=(1,))
    token = leader.produce()
    leader.feed(ConfigChanged(PartitionConfig(min_insync_replicas=2)))
    assert leader.error(token) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert leader.error(leader.produce()) is ErrorCode.NOT_ENOUGH_REPLICAS


# Timeouts


def test_a_request_times_out_alone() -> None:
    leader = Leader((1, 2))
    early, late = leader.produce(timeout_ms=100), leader.produce(timeout_ms=5_000)
    leader.flush()
    leader.world.advance(100)
    assert leader.error(early) is ErrorCode.REQUEST_TIMED_OUT
    assert leader.answer(late) is None
    leader.fetched(2, 2)
    assert leader.error(late) is ErrorCode.NONE


def test_a_shorter_deadline_behind_a_longer_one_is_kept() -> None:
    leader = Leader((1, 2))
    late, early = leader.produce(timeout_ms=5_000), leader.produce(timeout_ms=100)
    leader.world.advance(100)
    assert (leader.error(early), leader.error(late)) == (ErrorCode.REQUEST_TIMED_OUT, None)
    leader.world.advance(4_900)
    assert leader.error(late) is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("timeout_ms", [0, 100])
def test_a_deadline_does_not_count_the_only_replicas_fsync(timeout_ms: int) -> None:
    leader = Leader()
    token = leader.produce(timeout_ms=timeout_ms)
    leader.world.advance(60_000)
    assert leader.answer(token) is None and not leader.world.timers
    leader.flush()
    assert leader.answer(token) == ProduceResult(ErrorCode.NONE, 0, -1, 0)


def test_a_deadline_counts_the_followers_and_not_the_leaders_fsync() -> None:
    leader = Leader((1, 2))
    first, second = leader.produce(timeout_ms=100), leader.produce(timeout_ms=100)
    late = leader.produce(timeout_ms=200)
    leader.fetched(2, 1)
    leader.world.advance(100)
    assert (leader.answer(first), leader.answer(late)) == (None, None)
    assert leader.error(second) is ErrorCode.REQUEST_TIMED_OUT, "the follower does not have it"
    leader.world.advance(100)
    assert leader.error(late) is ErrorCode.REQUEST_TIMED_OUT
    leader.flush()
    assert leader.error(first) is ErrorCode.NONE


def test_who_waits_for_the_fsync_without_a_deadline_is_refused_with_the_leadership() -> None:
    leader = Leader()
    token = leader.produce(timeout_ms=0)
    leader.world.advance(1)
    leader.feed(BecomeFollower(2, 2, 2, (1, 2), (1, 2)))
    assert leader.error(token) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_stream_of_requests_arms_one_timer() -> None:
    leader = Leader(flush_at_once=True)
    before = leader.world.timers_set
    for _ in range(100):
        leader.produce()
    assert leader.world.timers_set == before + 1
    leader.world.advance(60_000)
    assert not leader.world.timers


# Idempotence


def test_a_retry_is_answered_with_the_original_offset_and_stored_once() -> None:
    leader = Leader(flush_at_once=True)
    leader.produce(count=5)
    first = leader.produce(count=3, producer=(7, 0, 0))
    again = leader.produce(count=3, producer=(7, 0, 0))
    assert leader.answer(first) == leader.answer(again) == ProduceResult(ErrorCode.NONE, 5, -1, 0)
    assert leader.log.end_offset == 8


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_retry_waits_until_the_original_is_durable(acks: int) -> None:
    leader = Leader()
    original = leader.produce(acks, producer=(7, 0, 0))
    leader.produce(acks, producer=(7, 0, 1))
    retry = leader.produce(acks, producer=(7, 0, 0))
    assert leader.answer(retry) is None
    leader.flush()
    assert leader.answer(original) == leader.answer(retry)
    late = leader.produce(acks, producer=(7, 0, 0))
    assert leader.answer(late) == leader.answer(original)


def test_a_retry_with_acks_one_waits_for_the_leaders_disk_alone() -> None:
    leader = Leader((1, 2))
    leader.produce(1, producer=(7, 0, 0))
    retry = leader.produce(1, producer=(7, 0, 0))
    leader.flush()
    late = leader.produce(1, producer=(7, 0, 0))
    assert [leader.error(token) for token in (retry, late)] == [ErrorCode.NONE] * 2


def test_a_retry_with_acks_zero_is_answered_at_once() -> None:
    leader = Leader()
    leader.produce(0, producer=(7, 0, 0))
    assert leader.error(leader.produce(0, producer=(7, 0, 0))) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("producer", "expected"),
    [
        ((7, 0, 5), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ((7, 0, 3), ErrorCode.NONE),
        ((7, 1, 0), ErrorCode.NONE),
        ((7, 1, 2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_a_sequence_must_follow_the_last_one(
    producer: tuple[int, int, int], expected: ErrorCode
) -> None:
    leader = Leader(flush_at_once=True)
    leader.produce(count=3, producer=(7, 0, 0))
    assert leader.error(leader.produce(producer=producer)) is expected


def test_an_older_producer_epoch_is_fenced() -> None:
    leader = Leader(flush_at_once=True)
    leader.produce(producer=(7, 3, 0))
    end_offset = leader.log.end_offset
    assert leader.error(leader.produce(producer=(7, 2, 0))) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert leader.log.end_offset == end_offset


def test_only_the_last_five_batches_are_known_for_duplicates() -> None:
    leader = Leader(flush_at_once=True)
    for sequence in range(6):
        leader.produce(producer=(7, 0, sequence))
    assert leader.error(leader.produce(producer=(7, 0, 1))) is ErrorCode.NONE
    oldest = leader.produce(producer=(7, 0, 0))
    assert leader.error(oldest) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert leader.log.end_offset == 6


# The disk


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_refused_append_fails_that_request_and_all_before_it(acks: int) -> None:
    leader = Leader()
    waiting = [leader.produce(), leader.produce(1)]
    leader.log.refuses = "ENOSPC"
    refused = leader.produce(acks)
    for token in (*waiting, refused):
        assert leader.error(token) is ErrorCode.KAFKA_STORAGE_ERROR
    assert leader.world.failures[KEY] == "ENOSPC"
    assert leader.error(leader.produce(1)) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_refused_append_with_acks_zero_is_not_answered_with_success() -> None:
    leader = Leader()
    assert leader.error(leader.produce(0)) is ErrorCode.NONE
    leader.log.refuses = "EIO"
    assert leader.error(leader.produce(0)) is ErrorCode.KAFKA_STORAGE_ERROR


def test_acks_zero_is_not_answered_again_when_its_record_was_cut_off() -> None:
    leader = Leader((1, 2))
    leader.produce(0)
    leader.feed(BecomeFollower(2, 2, 2, (1, 2), (2,)))
    leader.feed(Diverged(2, 0, 0))
    assert leader.machine.log_end_offset == 0
    leader.world.driver.disk_failed(KEY, "EIO")  # the world refuses a second answer
    assert leader.machine.is_offline


def test_a_failed_flush_fails_the_produces_that_wait_and_answers_each_once() -> None:
    leader = Leader()
    answered, one, all_in_sync = leader.produce(0), leader.produce(1), leader.produce()
    leader.world.driver.disk_failed(KEY, "EIO")
    assert leader.error(answered) is ErrorCode.NONE
    assert [leader.error(t) for t in (one, all_in_sync)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert not leader.machine.is_leader and leader.machine.is_offline


def test_an_offline_replica_answers_nothing_and_follows_no_metadata() -> None:
    leader = Leader()
    leader.world.driver.disk_failed(KEY, "EIO")
    leader.lead(9, 9, (1,), (1,))
    assert leader.machine.leader_epoch == 1
    for answer in (
        leader.machine.check_fetch(fetch_offset=0),
        leader.machine.offset_for_leader_epoch(-1, 1),
        leader.machine.list_offset(timestamp_ms=-1),
    ):
        assert answer is ErrorCode.KAFKA_STORAGE_ERROR


def test_what_a_step_had_decided_that_broke_down_is_never_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader = Leader()
    append = Appending._append

    def append_and_break(self: Appending, *given: Any) -> None:
        append(self, *given)
        self._outbox.reply("early", ProduceResult(ErrorCode.NONE, 0))
        raise LookupError("by mistake")

    monkeypatch.setattr(Appending, "_append", append_and_break)
    with pytest.raises(LookupError):
        leader.produce()
    leader.world.driver.disk_failed(KEY, "it broke down")
    assert leader.world.replies == {1: ProduceResult(ErrorCode.KAFKA_STORAGE_ERROR)}
    assert leader.log.end_offset == 0
    assert leader.machine.is_offline
