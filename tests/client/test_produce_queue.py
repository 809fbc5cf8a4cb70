"""What may be sent next to one partition: every way a batch can go, without I/O."""

from __future__ import annotations

import pytest

from fencepost.client.errors import ClientError, DeliveryFailed
from fencepost.client.metadata import TopicPartition
from fencepost.client.produce_queue import (
    EPOCH_MAX,
    STATE_LIFETIME_S,
    Delivery,
    Identity,
    PartitionQueue,
    QueuedBatch,
)
from fencepost.client.retry import Backoff, Deadline

WHERE = TopicPartition("t", 0)


def make_queue(count: int, *, idempotent: bool = True, records: int = 10) -> PartitionQueue:
    queue = PartitionQueue(WHERE, idempotent, Backoff(0, 0))
    queue.identity = Identity(7, 0)
    for _ in range(count):
        delivery = Delivery(WHERE, records)
        queue.unsent.append(QueuedBatch(bytearray(), records, delivery, Deadline(60_000)))
    return queue


def send(queue: PartitionQueue, now: float = 0) -> QueuedBatch | None:
    batch = queue.sendable(now)
    if batch is not None:
        queue.take(batch)
    return batch


def send_all(queue: PartitionQueue) -> list[QueuedBatch]:
    sent = []
    while (batch := send(queue)) is not None:
        sent.append(batch)
    return sent


def established(count: int) -> PartitionQueue:
    """A queue whose first batch is acknowledged, with `count` more."""
    queue = make_queue(count + 1)
    first = send(queue)
    assert first is not None
    queue.acknowledge(first, 0, -1, 0)
    return queue


def failure(text: str = "no") -> DeliveryFailed:
    return DeliveryFailed(text, topic="t", partition=0, in_doubt=False)


def test_one_batch_until_the_first_is_acknowledged_then_five():
    queue = make_queue(10)
    first = send(queue)
    assert first is not None
    assert send(queue) is None
    queue.acknowledge(first, 0, -1, 0)
    assert [batch.sequence for batch in send_all(queue)] == [10, 20, 30, 40, 50]


def test_after_a_long_silence_one_batch_again():
    queue = established(10)
    now = STATE_LIFETIME_S + 1
    first = send(queue, now)
    assert first is not None
    assert send(queue, now) is None
    queue.acknowledge(first, 10, -1, now)
    assert send(queue, now) is not None
    assert send(queue, now) is not None


def test_without_idempotence_never_more_than_one():
    queue = make_queue(3, idempotent=False)
    for _ in range(3):
        batch = send(queue)
        assert batch is not None
        assert batch.sequence == -1
        assert send(queue) is None
        queue.acknowledge(batch, 0, -1, 0)
    assert queue.is_empty


def test_refused_batches_wait_for_the_others_and_go_again_in_order():
    queue = established(5)
    sent = send_all(queue)
    queue.refuse(sent[0], 0, in_doubt=False)
    assert send(queue) is None  # draining
    queue.refuse(sent[2], 0, in_doubt=False)
    queue.refuse(sent[1], 0, in_doubt=True)
    queue.refuse(sent[3], 0, in_doubt=False)
    assert send(queue) is None
    queue.refuse(sent[4], 0, in_doubt=False)
    again = send_all(queue)
    assert again == sent
    assert [batch.sequence for batch in again] == [10, 20, 30, 40, 50]
    assert [batch.in_doubt for batch in again] == [False, True, False, False, False]


def test_a_batch_that_is_refused_again_and_again_is_not_left_behind():
    # Its first answer may have got lost: were five newer ones in the log, it would be unknown.
    queue = established(10)
    sent = send_all(queue)
    for batch in sent:
        queue.refuse(batch, 0, in_doubt=True)
    again = send_all(queue)
    queue.refuse(again[0], 0, in_doubt=False)
    for batch in again[1:]:
        queue.acknowledge(batch, 0, -1, 0)
    assert send(queue) is sent[0]
    assert send(queue) is None
    queue.acknowledge(sent[0], 0, -1, 0)
    assert len(send_all(queue)) == 5


def test_sending_again_waits_for_the_back_off():
    queue = make_queue(1)
    queue.backoff = Backoff(1000, 1000)
    batch = send(queue)
    assert batch is not None
    queue.refuse(batch, 100.0, in_doubt=False)
    assert queue.sendable(100.1) is None
    assert queue.sendable(101.5) is batch


def test_a_failure_takes_down_what_was_sent_behind_it_and_raises_the_epoch():
    queue = established(7)
    sent = send_all(queue)
    queue.acknowledge(sent[0], 10, -1, 0)
    queue.fail(sent[1], failure("too large"))
    assert send(queue) is None  # until the rest is answered
    for batch in sent[2:5]:
        queue.refuse(batch, 0, in_doubt=False)
    for batch in sent[2:5]:
        with pytest.raises(DeliveryFailed, match="an earlier batch of the partition failed: too"):
            batch.delivery.result()
    next_one = send(queue)
    assert next_one is not None
    assert (next_one.identity, next_one.sequence) == (Identity(7, 1), 0)
    assert send(queue) is None  # the new epoch has to be acknowledged first
    queue.acknowledge(next_one, 50, -1, 0)
    assert send(queue) is not None


def test_batches_behind_a_failed_one_may_still_have_made_it():
    queue = established(3)
    sent = send_all(queue)
    queue.fail(sent[0], failure())
    queue.acknowledge(sent[1], 20, -1, 0)
    queue.refuse(sent[2], 0, in_doubt=True)
    assert sent[1].delivery.result() == 20
    assert isinstance(sent[2].delivery.error, DeliveryFailed)
    assert sent[2].delivery.error.in_doubt
    assert queue.is_empty


def test_a_batch_before_the_failed_one_is_still_sent_again():
    queue = established(4)
    sent = send_all(queue)
    queue.refuse(sent[0], 0, in_doubt=False)
    queue.fail(sent[1], failure())
    queue.refuse(sent[2], 0, in_doubt=False)
    queue.refuse(sent[3], 0, in_doubt=False)
    assert sent[2].delivery.done and sent[3].delivery.done
    assert send(queue) is sent[0]
    assert sent[0].identity == Identity(7, 0)
    queue.acknowledge(sent[0], 10, -1, 0)
    assert queue.is_empty
    assert queue.identity == Identity(7, 1)


def test_an_unsent_batch_can_fail_alone():
    queue = make_queue(2)
    first = queue.unsent[0]
    queue.fail(first, failure())
    batch = send(queue)
    assert batch is not None
    assert (batch.identity.epoch, batch.sequence) == (0, 0)


def test_producer_epochs_run_out():
    queue = make_queue(1)
    queue.identity = Identity(7, EPOCH_MAX)
    batch = send(queue)
    assert batch is not None
    queue.fail(batch, failure())
    assert queue.identity is None


@pytest.mark.parametrize(
    ("last", "following"),
    [
        (2_147_483_637, 2_147_483_647),  # the greatest int32 is a sequence
        (2_147_483_638, 0),
        (2_147_483_644, 6),
        (2_147_483_647, 9),
    ],
)
def test_the_sequence_behind_the_greatest_int32_is_zero(last: int, following: int):
    queue = established(2)
    queue._next_sequence = last
    assert [batch.sequence for batch in send_all(queue)] == [last, following]


def test_expired_batches_are_those_not_in_flight():
    queue = established(3)
    queue.unsent[0].deadline = queue.unsent[1].deadline = Deadline(0)
    assert send(queue) is not None
    assert queue.expired() == [queue.unsent[0]]


def test_undecided_deliveries_say_so():
    with pytest.raises(ClientError, match="not decided"):
        Delivery(WHERE, 1).result()


def parts_of(batch: QueuedBatch, counts: list[int]) -> list[QueuedBatch]:
    return [
        QueuedBatch(bytearray(), count, delivery, batch.deadline)
        for count, delivery in zip(counts, batch.delivery.split(counts), strict=True)
    ]


def test_parts_of_a_batch_keep_its_place_and_its_sequences():
    queue = established(4)
    first, second, third = send(queue), send(queue), send(queue)
    assert first and second and third
    assert [one.sequence for one in (first, second, third)] == [10, 20, 30]
    parts = parts_of(second, [3, 3, 4])
    queue.replace(second, parts)
    assert send(queue) is None, "answers are awaited first"
    queue.refuse(third, 0, in_doubt=False)
    queue.acknowledge(first, 10, -1, 0)
    sent = send_all(queue)
    assert sent == [*parts, third, queue.in_flight[-1]]
    assert [one.sequence for one in sent] == [20, 23, 26, 30, 40]
    assert [one.order for one in sent] == [2, 3, 4, 5, 6]
    assert not second.delivery.done
    for offset, part in zip((100, 200, 300), parts):
        queue.acknowledge(part, offset, 7, 0)
    assert second.delivery.done
    assert (second.delivery.base_offset, second.delivery.log_append_time_ms) == (100, 7)
    assert second.delivery.offsets() == [(100, 3), (200, 3), (300, 4)]
    found = [second.delivery.offset_of(index) for index in range(10)]
    assert found == [100, 101, 102, 200, 201, 202, 300, 301, 302, 303]


def test_no_more_parts_are_in_flight_than_brokers_recognise():
    """A part whose answer gets lost must still be known when it comes again."""
    queue = established(1)
    batch = send(queue)
    assert batch is not None
    parts = parts_of(batch, [1] * 10)
    queue.replace(batch, parts)
    assert send_all(queue) == parts[:5]
    for part in parts[1:5]:
        queue.acknowledge(part, -1, -1, 0)
    assert send(queue) is None, "the first is not decided yet"
    queue.acknowledge(parts[0], -1, -1, 0)
    assert send_all(queue) == parts[5:]


def test_a_part_that_fails_takes_those_behind_it_down():
    queue = established(2)
    batch = send(queue)
    assert batch is not None
    parts = parts_of(batch, [5, 5])
    queue.replace(batch, parts)
    assert send_all(queue)[:2] == parts
    queue.acknowledge(parts[0], 50, -1, 0)
    queue.fail(parts[1], failure())
    assert batch.delivery.done
    assert batch.delivery.offset_of(4) == 54
    with pytest.raises(DeliveryFailed):
        batch.delivery.offset_of(5)
    with pytest.raises(DeliveryFailed):
        batch.delivery.result()
    behind = queue.in_flight[0]
    queue.refuse(behind, 0, in_doubt=False)
    assert behind.delivery.error is not None
    assert queue.identity == Identity(7, 1)


def test_what_was_not_sent_is_replaced_where_it_waits():
    queue = make_queue(3)
    middle = queue.unsent[1]
    parts = parts_of(middle, [4, 6])
    queue.replace(middle, parts)
    assert [one.count for one in queue.unsent] == [10, 4, 6, 10]
    assert parts[0].order == -1
