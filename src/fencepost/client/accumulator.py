"""Single records gathered into batches, one open batch per partition, without I/O.

A batch is closed when it reaches `batch.size` or the next record would not fit in, when it has been
open for `linger.ms`, and when everything is to leave. A record larger than `batch.size` goes alone,
up to `max.request.size` and `buffer.memory`, as of Kafka's producer.

Partitions: as given, else by the key as Kafka's default partitioner does, else sticky (KIP-480):
keyless records stay with one partition until its batch closes. With `partitioner.ignore.keys` all
records are keyless to this end (KIP-794), and Kafka's RoundRobinPartitioner takes one partition
after the other, record by record.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from fencepost.batch.partitioner import partition_for_key
from fencepost.batch.record_size import RECORD_OVERHEAD_MAX, shown_bytes, size_bound
from fencepost.batch.records import BatchBuilder, Header
from fencepost.client.config import ClientConfig
from fencepost.client.errors import ClientError, UnknownTopic
from fencepost.client.metadata import TopicPartition
from fencepost.client.produce_queue import Delivery
from fencepost.wire.errors import ErrorCode


class OpenBatch:
    """Records of one partition that gather, and the fate that they will share."""

    __slots__ = ("append", "builder", "count", "fate", "opened_at", "partition", "size_bytes")

    def __init__(self, partition: TopicPartition, config: ClientConfig) -> None:
        self.partition = partition
        self.builder: BatchBuilder | None = BatchBuilder(
            config.compression_type, level=config.compression_level
        )
        self.append: Any = self.builder.records.append
        self.size_bytes = self.builder.size_bytes
        self.count = 0
        self.opened_at = time.monotonic()
        self.fate: Delivery | None = None

    def build(self) -> bytearray:
        """The batch. Its deliveries may be kept for long, so its records are let go of."""
        assert self.builder is not None
        built = self.builder.build()
        self.builder = self.append = None
        return built

    def give_up(self, cause: ClientError) -> None:
        """The batch will not be sent."""
        self.builder = self.append = None
        self.fate = Delivery(self.partition, self.count)
        self.fate.fail(cause)


class RecordDelivery(Struct, eq=False, gc=False):
    """The fate of one record: its place in a batch, whose fate it shares."""

    _batch: OpenBatch
    _index: int

    @property
    def partition(self) -> TopicPartition:
        return self._batch.partition

    @property
    def done(self) -> bool:
        fate = self._batch.fate
        return fate is not None and fate.done

    def result(self) -> int:
        """The record's offset, -1 if the broker did not tell; raises what delivery failed with,
        or ClientError while it is undecided (flush first)."""
        fate = self._batch.fate
        if fate is None:
            raise ClientError("the record is not sent yet; flush the producer first")
        return fate.offset_of(self._index)


class RecordAccumulator:
    """The open batches of one producer; see the module."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._goes_by_key = not (config.round_robin or config.ignore_keys)
        self._linger_s = config.linger_ms / 1000
        self._batch_bytes = min(config.batch_size, config.max_request_size)
        # Of key and value together: with the most that is around them it may be sent.
        self._surely_taken_bytes = min(config.max_request_size, config.buffer_memory) - 100
        # By (topic, partition), in the order in which they were opened.
        self._open: dict[tuple[str, int], OpenBatch] = {}
        self._due_at = float("inf")  # when the first of them has lingered
        self._sticky: dict[str, int] = {}
        self._turns: dict[str, int] = {}  # the partition that follows, of RoundRobinPartitioner

    @property
    def is_empty(self) -> bool:
        return not self._open

    def add(
        self,
        topic: str,
        partition_count: int,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: Iterable[Header],
        timestamp_ms: int | None,
    ) -> tuple[OpenBatch, int, Sequence[OpenBatch]]:
        """Add a record: its batch, its place there, and the batches that this closes, to be sent in
        this order.

        ClientError for a record larger than `max.request.size` or `buffer.memory` allow,
        UnknownTopic for a partition that the topic has not.
        """
        named = partition
        if key is not None and partition is None and self._goes_by_key:
            partition = partition_for_key(key, partition_count)
        else:
            partition = self._choose(topic, partition_count, partition)
        size = len(value or b"") + len(key or b"")
        most = size
        if headers:
            headers = pairs = tuple(headers)
            size += sum(len(name) + len(content or b"") for name, content in pairs)
            most = 4 * size + 16 * len(pairs)  # of UTF-8 in names, and of sizes
        if most > self._surely_taken_bytes:
            self._require_room(topic, partition, key, value, headers)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        closed: Sequence[OpenBatch] = ()
        batch = self._open.get((topic, partition))
        if batch is None or batch.size_bytes + size + RECORD_OVERHEAD_MAX > self._batch_bytes:
            # What cannot be appended leaves everything as it was.
            begun = OpenBatch(TopicPartition(topic, partition), self._config)
            begun.size_bytes = begun.append(key, value, headers, timestamp_ms)
            if batch is not None:
                closed = (self._close((topic, partition)),)
                sticks = named is None and not self._config.round_robin
                if sticks and (key is None or not self._goes_by_key):
                    closed = (*closed, *self._begin_elsewhere(begun, partition_count))
            batch = self._open[begun.partition] = begun
            self._due_at = min(self._due_at, batch.opened_at + self._linger_s)
        else:
            batch.size_bytes = batch.append(key, value, headers, timestamp_ms)
        index = batch.count
        batch.count = index + 1
        if batch.size_bytes >= self._config.batch_size:
            closed = (*closed, self._close(batch.partition))
        if time.monotonic() >= self._due_at:
            closed = (*closed, *self.lingering())
        return batch, index, closed

    def _begin_elsewhere(self, begun: OpenBatch, partition_count: int) -> Sequence[OpenBatch]:
        """Have the batch that follows a full one, of records without a key, in the partition that
        is next; what was open there is closed, and returned."""
        topic = begun.partition.topic
        partition = self._choose(topic, partition_count, None)
        begun.partition = TopicPartition(topic, partition)
        closed = [self._close(begun.partition)] if begun.partition in self._open else []
        self._sticky[topic] = partition
        return closed

    def _require_room(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[Header],
    ) -> None:
        size_bytes = size_bound(key, value, tuple(headers))
        for name, most_bytes in (
            ("max.request.size", self._config.max_request_size),
            ("buffer.memory", self._config.buffer_memory),
        ):
            if size_bytes > most_bytes:
                named = "no key" if key is None else f"key {shown_bytes(key)}"
                raise ClientError(
                    f"a record of {size_bytes} bytes ({named}) exceeds {name}={most_bytes}",
                    topic=topic,
                    partition=partition,
                    code=ErrorCode.MESSAGE_TOO_LARGE,
                )

    def _choose(self, topic: str, partition_count: int, partition: int | None) -> int:
        """Where a record goes that does not go by its key."""
        if partition is not None:
            if not 0 <= partition < partition_count:
                raise UnknownTopic(
                    f"the topic has {partition_count} partitions",
                    topic=topic,
                    partition=partition,
                    code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
            return partition
        if self._config.round_robin:
            turn = self._turns.get(topic, random.randrange(partition_count)) % partition_count
            self._turns[topic] = turn + 1
            return turn
        sticky = self._sticky.get(topic)
        if sticky is None or sticky >= partition_count:
            sticky = self._sticky[topic] = random.randrange(partition_count)
        return sticky

    def lingering(self) -> list[OpenBatch]:
        """Close the batches that have been open for `linger.ms`."""
        due = time.monotonic() - self._linger_s
        return [
            self._close(where)
            for where in [place for place, batch in self._open.items() if batch.opened_at <= due]
        ]

    def close_all(self) -> list[OpenBatch]:
        """Close every batch."""
        return [self._close(where) for where in list(self._open)]

    def next_due_ms(self) -> float | None:
        """Milliseconds until a batch has lingered long enough; None without an open one."""
        if not self._open:
            return None
        return max(0.0, (self._due_at - time.monotonic()) * 1000)

    def _close(self, where: tuple[str, int]) -> OpenBatch:
        self._sticky.pop(where[0], None)
        batch = self._open.pop(where)
        oldest = next(iter(self._open.values()), None)
        self._due_at = float("inf") if oldest is None else oldest.opened_at + self._linger_s
        return batch
