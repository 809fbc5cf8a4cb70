"""What a producer may send next to one partition: order, sequences and retries, without I/O.

A batch lives in one of three places of its `PartitionQueue`: `unsent` (no sequence yet),
`in_flight` (sent, not answered) and `again` (refused or lost, to be sent again). All keep send
order, and every batch of `again` and `in_flight` was sent before any of `unsent`.

Invariants: sequences are given at the first sending and never change; while `again` holds a batch
no later one is sent; with idempotence all undecided batches that were sent lie within `WINDOW` of
each other; before the first acknowledgement of an identity, or after a long silence, at most one
is undecided. After a failure a partition goes on under the next epoch, except that of a
transactional producer: its transaction is aborted, and `adopt` begins the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from fencepost.client.errors import ClientError, DeliveryFailed
from fencepost.client.metadata import TopicPartition
from fencepost.client.retry import Backoff, Deadline

WINDOW = 5  # batches per producer and partition in which brokers recognise duplicates
SEQUENCES = 2**31  # sequence numbers wrap to 0 here
EPOCH_MAX = 2**15 - 1
# Brokers forget idle producers (producer.id.expiration.ms, a day) and then take any sequence
# again; after this time without an acknowledgement we count on being forgotten.
STATE_LIFETIME_S = 3600.0


class Identity(NamedTuple):
    """Producer id and epoch; (-1, -1) for a producer that is not idempotent."""

    producer_id: int
    epoch: int


NO_IDENTITY = Identity(-1, -1)


class Delivery:
    """The fate of one batch: `done` when known, then `base_offset` or `error` is set.

    `base_offset` is -1 when the broker did not tell (acks=0, or a duplicate of an old batch). A
    batch that had to be split is done when all of its `parts` are; it has the first one's offset,
    and the error of the first that failed.
    """

    __slots__ = (
        *("base_offset", "count", "done", "error", "log_append_time_ms", "partition", "parts"),
        "_whole",
    )

    def __init__(self, partition: TopicPartition, count: int) -> None:
        self.partition = partition
        self.count = count
        self.done = False
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.error: ClientError | None = None
        self.parts: list[Delivery] = []
        self._whole: Delivery | None = None

    def result(self) -> int:
        """The base offset; raises what the delivery failed with, or that it is not yet known."""
        if self.error is not None:
            raise self.error
        if not self.done:
            raise ClientError("the delivery is not decided yet; flush the producer first")
        return self.base_offset

    def offset_of(self, index: int) -> int:
        """The offset of the batch's record of that number, -1 if it is not known; raises what its
        delivery failed with, or that it is not yet known."""
        for part in self.parts:
            if index < part.count:
                return part.offset_of(index)
            index -= part.count
        base_offset = self.result()
        return base_offset + index if base_offset >= 0 else -1

    def offsets(self) -> list[tuple[int, int]]:
        """First offset and number of records of each batch that became of this one, when all are
        acknowledged; raises as `result`."""
        if self.parts:
            return [one for part in self.parts for one in part.offsets()]
        return [(self.result(), self.count)]

    def split(self, counts: Sequence[int]) -> list[Delivery]:
        """The deliveries of the parts, of so many records, in which the batch goes on."""
        assert not self.parts and sum(counts) == self.count
        self.parts = [Delivery(self.partition, count) for count in counts]
        for part in self.parts:
            part._whole = self
        return self.parts

    def acknowledge(self, base_offset: int, log_append_time_ms: int) -> None:
        """The batch is in the log."""
        self.base_offset, self.log_append_time_ms = base_offset, log_append_time_ms
        self._decided()

    def fail(self, error: ClientError) -> None:
        """The batch will not be delivered."""
        self.error = error
        self._decided()

    def _decided(self) -> None:
        self.done = True
        whole = self._whole
        if whole is None or not all(part.done for part in whole.parts):
            return
        errors = [part.error for part in whole.parts if part.error is not None]
        if errors:
            whole.fail(errors[0])
        else:
            first = whole.parts[0]
            whole.acknowledge(first.base_offset, first.log_append_time_ms)


@dataclass(slots=True, eq=False)
class QueuedBatch:
    """A batch on its way; `data` is stamped with its identity and sequence when first sent."""

    data: bytearray
    count: int
    delivery: Delivery
    deadline: Deadline
    order: int = -1
    sequence: int = -1
    identity: Identity = NO_IDENTITY
    in_doubt: bool = False  # an answer got lost, so the broker may have it
    retries: int = 0


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """All batches of one partition that are not decided."""

    partition: TopicPartition
    idempotent: bool
    backoff: Backoff
    window: int = WINDOW
    transactional: bool = False
    identity: Identity | None = None
    unsent: deque[QueuedBatch] = field(default_factory=deque)
    in_flight: list[QueuedBatch] = field(default_factory=list)
    again: list[QueuedBatch] = field(default_factory=list)
    retry_at: float = 0.0  # monotonic seconds before which nothing is sent
    last_error: ClientError | None = None  # why retrying was needed; for error texts
    unknown_topic_attempts: int = 0
    most_bytes: int | None = None
    """Of a batch of several records, since a larger one was refused for its size."""
    _next_sequence: int = 0
    _next_order: int = 0
    _acknowledged_at: float = float("-inf")
    _draining: bool = False
    _failure: DeliveryFailed | None = None
    _failed_order: int = -1

    @property
    def used(self) -> bool:
        """Whether any batch was ever sent."""
        return self._next_order > 0

    @property
    def is_empty(self) -> bool:
        return not (self.unsent or self.in_flight or self.again)

    def sendable(self, now: float) -> QueuedBatch | None:
        """The batch that may go out now, if any; `take` it when it really does."""
        if self._draining or now < self.retry_at:
            return None
        if len(self.in_flight) >= self._window(now):
            return None
        if self.again:
            return None if self._reaches_too_far(self.again[0].order) else self.again[0]
        if self._failure is not None or not self.unsent or self._reaches_too_far(self._next_order):
            return None
        return self.unsent[0]

    def _reaches_too_far(self, order: int) -> bool:
        """Whether one more batch would push the oldest undecided one, which may be in the log
        already, out of what the broker remembers; sent again, it would not be recognised."""
        oldest = min((batch.order for batch in self.in_flight), default=order)
        return order - oldest >= WINDOW

    def _window(self, now: float) -> int:
        # Without sequences only one at a time keeps the order when a batch is sent again.
        known_to_leader = now - self._acknowledged_at < STATE_LIFETIME_S
        return self.window if self.idempotent and known_to_leader else 1

    def take(self, batch: QueuedBatch) -> bool:
        """Note that `batch`, got from `sendable`, is sent; True when it got its sequence just now
        and must be stamped. `identity` must be set by then."""
        assert self.identity is not None
        first_time = batch.order < 0
        if first_time:
            assert batch is self.unsent[0] and not self.again
            self.unsent.popleft()
            batch.order = self._next_order
            self._next_order += 1
            batch.identity = self.identity
            if self.idempotent:
                batch.sequence = self._next_sequence
                self._next_sequence = (self._next_sequence + batch.count) % SEQUENCES
        else:
            assert batch is self.again[0]
            self.again.pop(0)
        assert all(other.order < batch.order for other in self.in_flight)
        self.in_flight.append(batch)
        return first_time

    def acknowledge(
        self, batch: QueuedBatch, base_offset: int, log_append_time_ms: int, now: float
    ) -> None:
        """`batch` is in the log."""
        self.in_flight.remove(batch)
        self._acknowledged_at = now
        self.backoff.reset()
        batch.delivery.acknowledge(base_offset, log_append_time_ms)
        self._maybe_settle()

    def is_oldest(self, batch: QueuedBatch) -> bool:
        """Whether nothing sent before `batch` is still undecided."""
        return all(other.order >= batch.order for other in (*self.in_flight, *self.again))

    def refuse(self, batch: QueuedBatch, now: float, *, in_doubt: bool) -> None:
        """`batch` is to be sent again: a broker refused it for now, or (`in_doubt`) its answer got
        lost. After an earlier batch failed for good, it fails instead."""
        self.in_flight.remove(batch)
        batch.in_doubt |= in_doubt
        if self._failure is not None and batch.order > self._failed_order:
            self._give_up(batch, self._failure)
        else:
            self.again.append(batch)
            self.again.sort(key=lambda item: item.order)
            self._draining = bool(self.in_flight)
            self.retry_at = now + self.backoff.next_ms() / 1000
        self._maybe_settle()

    def replace(self, batch: QueuedBatch, parts: Sequence[QueuedBatch]) -> None:
        """`batch`, which a broker refused for its size, goes on as these, in its place and with its
        sequences, which parts of a batch that was sent have to be stamped with."""
        if batch.order < 0:
            at = self.unsent.index(batch)
            del self.unsent[at]
            for part in reversed(parts):
                self.unsent.insert(at, part)
            return
        self.in_flight.remove(batch)
        more = len(parts) - 1
        for later in (*self.in_flight, *self.again):
            later.order += more * (later.order > batch.order)
        self._next_order += more
        self._failed_order += more * (self._failed_order > batch.order)
        sequence = batch.sequence
        for index, part in enumerate(parts):
            part.order, part.identity = batch.order + index, batch.identity
            part.sequence = sequence
            sequence = (sequence + part.count) % SEQUENCES if self.idempotent else sequence
        if self._failure is not None and batch.order > self._failed_order:
            for part in parts:
                self._give_up(part, self._failure)
        else:
            self.again = sorted([*self.again, *parts], key=lambda one: one.order)
            self._draining = bool(self.in_flight)
        self._maybe_settle()

    def fail(self, batch: QueuedBatch, error: DeliveryFailed) -> None:
        """`batch` will not be delivered; nor will those that were sent behind it."""
        was_sent = batch.order >= 0
        if batch in self.in_flight:
            self.in_flight.remove(batch)
        elif batch in self.again:
            self.again.remove(batch)
        else:
            self.unsent.remove(batch)
        batch.delivery.fail(error)
        if was_sent:
            if self._failure is None or batch.order < self._failed_order:
                self._failure, self._failed_order = error, batch.order
            for later in [item for item in self.again if item.order > batch.order]:
                self.again.remove(later)
                self._give_up(later, error)
        self._maybe_settle()

    def expired(self) -> list[QueuedBatch]:
        """Batches whose delivery time is over, oldest first; those in flight are awaited."""
        # All have the same time, so none behind one that has time left is over: queues are long,
        # and they are looked at with every poll.
        return [
            batch
            for queued in (self.again, self.unsent)
            for batch in takewhile(lambda one: one.deadline.passed, queued)
        ]

    def adopt(self, identity: Identity) -> None:
        """Go on under another identity (a transactional producer's next transaction), if it is
        another: with sequences from 0. Nothing may be undecided."""
        if identity == self.identity:
            return
        assert self.is_empty, f"{self.partition} has undecided batches"
        self.identity = identity
        self._next_sequence = 0
        self._acknowledged_at = float("-inf")

    def _give_up(self, batch: QueuedBatch, cause: DeliveryFailed) -> None:
        batch.delivery.fail(
            DeliveryFailed(
                f"an earlier batch of the partition failed: {cause.message}",
                topic=self.partition.topic,
                partition=self.partition.partition,
                in_doubt=batch.in_doubt,
                code=cause.code,
            ),
        )

    def _maybe_settle(self) -> None:
        """End a drain, and after a failure start over under a new epoch, when all is answered."""
        if self.in_flight:
            return
        self._draining = False
        if self._failure is None or self.again:
            return
        self._failure = None
        if self.idempotent and self.identity is not None and not self.transactional:
            producer_id, epoch = self.identity
            # Out of epochs: None asks for a producer id that was never used.
            self.identity = Identity(producer_id, epoch + 1) if epoch < EPOCH_MAX else None
            self._next_sequence = 0
            self._acknowledged_at = float("-inf")
