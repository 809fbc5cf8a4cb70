"""A follower and its leader's answers: what is appended, where a diverged log is cut."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.batch.header import stamp
from fencepost.batch.legacy import build_message_set
from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import Record
from fencepost.machines.effects import Append, Persist, Truncate
from fencepost.machines.partition import (
    BecomeFollower,
    BecomeLeader,
    Diverged,
    Fetched,
    FetchedOutOfRange,
    Partition,
)

from .fakes import World, batch

EPOCH = 9


def final(base_offset: int, epoch: int, count: int = 1) -> RecordBatch:
    """A batch as a leader stored it."""
    data = batch(count)
    stamp(data, 0, base_offset=base_offset, leader_epoch=epoch)
    return RecordBatch.parse(bytes(data))


def follower(*stored: tuple[int, int, int]) -> tuple[World, Partition]:
    """Follows broker 2 in epoch 9; its log has batches (base offset, epoch, records)."""
    world = World(flush_at_once=True)
    log = world.logs["t"]
    for base_offset, epoch, count in stored:
        log.append(Append([final(base_offset, epoch, count)], epoch, as_leader=False))
    log.durable_offset = log.end_offset
    machine = Partition(1, log, durable_offset=log.end_offset)
    world.driver.add("t", machine)
    world.driver.feed("t", BecomeFollower(2, EPOCH, 1, (1, 2), (1, 2)))
    return world, machine


LOG = ((0, 1, 10), (10, 3, 5), (15, 4, 5))  # epoch 1: 0-9, 3: 10-14, 4: 15-19


def test_batches_behind_the_end_are_appended_and_the_high_watermark_follows() -> None:
    world, machine = follower(*LOG)
    answer = Fetched(EPOCH, 20, [final(20, 4, 2), final(22, 9, 3)], 24)
    world.driver.feed("t", answer)
    assert machine.log_end_offset == 25
    assert machine.high_watermark == 24
    assert list(world.logs["t"].epochs) == [(1, 0), (3, 10), (4, 15), (9, 22)]
    assert machine.fetch_position() == (25, 9)


def test_the_high_watermark_stays_within_our_log_and_never_falls() -> None:
    world, machine = follower(*LOG)
    world.driver.feed("t", Fetched(EPOCH, 20, [], 1_000))
    assert machine.high_watermark == 20
    world.driver.feed("t", Fetched(EPOCH, 20, [], 3))
    assert machine.high_watermark == 20


def test_the_log_starts_where_the_leaders_does_within_the_high_watermark() -> None:
    world, machine = follower(*LOG)
    world.driver.feed("t", Fetched(EPOCH, 20, [], 13, 10))
    assert machine.log_start_offset == 10
    world.driver.feed("t", Fetched(EPOCH, 20, [], 13, 18))
    assert machine.log_start_offset == 13, "nothing is deleted that may not be read yet"
    world.driver.feed("t", Fetched(EPOCH, 20, [final(20, 9, 4)], 24, 22))
    assert machine.log_start_offset == 22, "the records first, then the high watermark"
    world.driver.feed("t", Fetched(EPOCH, 24, [], 24, 3))
    assert machine.log_start_offset == 22


def older(offset: int) -> tuple[Any, bytes]:
    """A message of format v1, which has no leader epoch."""
    data = build_message_set([Record(offset, 5, 0, None, b"v")], magic=1)
    return RecordBatch.parse(bytes(data))


def test_messages_without_an_epoch_stand_in_front_of_batches() -> None:
    world, machine = follower()
    answer = Fetched(EPOCH, 0, [older(0), older(1), final(2, 4, 3), final(5, 9)], 6)
    world.driver.feed("t", answer)
    assert machine.log_end_offset == 6
    assert list(world.logs["t"].epochs) == [(4, 2), (9, 5)]
    world.driver.feed("t", Fetched(EPOCH, 6, [older(6)], 7))  # and never behind one
    assert machine.log_end_offset == 6


@pytest.mark.parametrize(
    "answer",
    [
        Fetched(EPOCH, 15, [final(15, 4, 5)], 20),  # an answer to an earlier fetch
        Fetched(EPOCH - 1, 20, [final(20, 4)], 21),  # of another leader epoch
        Fetched(EPOCH + 1, 20, [final(20, 4)], 21),
        Fetched(EPOCH, 20, [final(19, 4)], 21),  # overlaps
        Fetched(EPOCH, 20, [final(20, EPOCH + 1)], 21),  # KAFKA-18723
        Fetched(EPOCH, 20, [final(20, 3)], 21),  # epochs never go down
        Fetched(EPOCH, 20, [final(20, -1)], 21),
    ],
)
def test_what_does_not_continue_the_log_is_not_appended(answer: Fetched) -> None:
    world, machine = follower(*LOG)
    world.driver.feed("t", answer)
    assert machine.log_end_offset == 20


@pytest.mark.parametrize("answer", [Diverged(EPOCH, 3, 12), FetchedOutOfRange(EPOCH, 0, 12)])
def test_a_batch_that_is_cut_in_its_middle_goes_and_counts_for_nothing(answer: Any) -> None:
    """A leader's epoch ends in the middle of our batch if its log was compacted, ours was not."""
    world, machine = follower(*LOG)
    world.driver.feed("t", Fetched(EPOCH, 20, [], 12))
    world.flush_at_once = False
    world.driver.feed("t", answer)
    assert machine.log_end_offset == machine.durable_offset == machine.high_watermark == 10
    world.driver.feed("t", Fetched(EPOCH, 10, [final(10, 9, 5)], 10))
    assert (machine.log_end_offset, machine.durable_offset) == (15, 10), "no flush has begun"
    world.flush("t")
    assert machine.durable_offset == 15


def test_a_doubled_answer_is_appended_once() -> None:
    world, machine = follower(*LOG)
    answer = Fetched(EPOCH, 20, [final(20, 4)], 20)
    world.driver.feed("t", answer)
    world.driver.feed("t", answer)
    assert machine.log_end_offset == 21


def test_all_up_to_the_first_that_does_not_fit() -> None:
    world, machine = follower(*LOG)
    batches = [final(20, 4), final(21, EPOCH + 1), final(22, 4)]
    world.driver.feed("t", Fetched(EPOCH, 20, batches, 30))
    assert (machine.log_end_offset, machine.high_watermark) == (21, 21)


def test_a_diverged_log_is_cut_and_forgets_the_rest() -> None:
    world, machine = follower(*LOG)
    world.driver.feed("t", Fetched(EPOCH, 20, [], 17))
    world.driver.feed("t", Diverged(EPOCH, 3, 12))
    # Batches are whole: what the cut meets goes with it.
    assert machine.log_end_offset <= 12
    assert machine.high_watermark <= 12 and machine.durable_offset <= 12
    assert world.logs["t"].epochs.latest_epoch() == 1


def test_several_elections_take_several_answers() -> None:
    """KIP-279: the leader has epochs 1 and 2, we have 1 and 3; 3 ends nowhere with it."""
    _, machine = follower((0, 1, 5), (5, 3, 5))
    assert machine.step(Diverged(EPOCH, 2, 8), 0, 0) == [Persist(Truncate(5))]


def test_an_epoch_in_which_we_wrote_nothing_is_forgotten() -> None:
    world, machine = follower((0, 1, 5))
    world.logs["t"].epochs.assign(7, 5)
    assert machine.fetch_position() == (5, 7)
    world.driver.feed("t", Diverged(EPOCH, 2, 9))
    assert machine.fetch_position() == (5, 1)


@pytest.mark.parametrize(
    ("start", "end", "effects"),
    [
        (0, 12, [Persist(Truncate(12))]),
        (30, 40, [Persist(Truncate(30, start_over=True))]),
        (0, 40, []),
        (0, 20, []),
        (20, 40, []),
    ],
)
def test_a_follower_out_of_the_leaders_range_cuts_or_starts_over(
    start: int, end: int, effects: list[Any]
) -> None:
    _, machine = follower(*LOG)
    assert machine.step(FetchedOutOfRange(EPOCH, start, end), 0, 0) == effects
    if start == 30:
        assert machine.durable_offset == 30, "it waits for no flush: there is nothing to flush"
        assert machine.high_watermark == 30, "KAFKA-9491: it is lifted with the log's start"


def test_a_log_that_begins_in_the_middle_of_its_leaders_batch_takes_the_whole_batch() -> None:
    world, machine = follower((0, 1, 5))
    world.driver.feed("t", FetchedOutOfRange(EPOCH, 12, 15))
    assert machine.fetch_position() == (12, -1)
    world.driver.feed("t", Fetched(EPOCH, 12, [final(10, 3, 5)], 14, 12))
    assert (machine.log_start_offset, machine.log_end_offset) == (12, 15)
    assert (machine.high_watermark, machine.durable_offset) == (14, 15)
    assert machine.fetch_position() == (15, 3)


def test_an_empty_log_takes_no_batch_that_ends_below_it() -> None:
    world, machine = follower()
    world.driver.feed("t", FetchedOutOfRange(EPOCH, 12, 15))
    world.driver.feed("t", Fetched(EPOCH, 12, [final(10, 3, 2)], 14, 12))
    assert (machine.log_start_offset, machine.log_end_offset) == (12, 12)


def test_nothing_is_cut_below_the_logs_start() -> None:
    world, machine = follower(*LOG)
    world.logs["t"].start_offset = 8
    assert machine.step(Diverged(EPOCH, 0, 3), 0, 0) == [Persist(Truncate(8))]


def unflushed() -> tuple[World, Partition]:
    """A follower with twenty records, the first ten of them on its disk."""
    world = World()
    log = world.logs["t"]
    machine = Partition(1, log)
    world.driver.add("t", machine)
    world.driver.feed("t", BecomeFollower(2, EPOCH, 1, (1, 2), (1, 2)))
    world.driver.feed("t", Fetched(EPOCH, 0, [final(0, 1, 10)], 10))
    world.flush("t")
    world.driver.feed("t", Fetched(EPOCH, 10, [final(10, 3, 10)], 10))
    assert (machine.durable_offset, machine.log_end_offset) == (10, 20)
    return world, machine


def test_a_flush_that_began_before_a_cut_makes_nothing_durable_that_is_gone() -> None:
    world, machine = unflushed()
    world.driver.feed("t", Diverged(EPOCH, 1, 10))
    assert machine.log_end_offset == 10
    world.driver.persisted("t", 20)
    assert machine.durable_offset == 10
    world.driver.feed("t", BecomeLeader(EPOCH + 1, 2, (1, 2), (1,), {1: 101}))
    assert machine.high_watermark == 10


def test_a_cut_makes_nothing_durable_that_was_not() -> None:
    world, machine = unflushed()
    world.driver.feed("t", Fetched(EPOCH, 20, [final(20, 3, 5)], 10))
    world.driver.feed("t", Diverged(EPOCH, 3, 20))
    assert (machine.durable_offset, machine.log_end_offset) == (10, 20)
