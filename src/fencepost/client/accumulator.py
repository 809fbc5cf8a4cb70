"""Single records gathered into batches, one open batch per partition, without I/O.

A batch is closed when it reaches `batch.size`, when it has been open for `linger.ms`, and when
everything is to leave. Partitions: as given, else by the key as Kafka's default partitioner does,
else sticky (KIP-480): keyless records stay with one partition until its batch closes. With
`partitioner.ignore.keys` all records are keyless to this end (KIP-794), and Kafka's
RoundRobinPartitioner takes one partition after the other, record by record.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable

from fencepost.batch.partitioner import partition_for_key
from fencepost.batch.records import BatchBuilder, Header
from fencepost.client.config import ClientConfig
from fencepost.client.errors import ClientError, UnknownTopic
from fencepost.client.metadata import TopicPartition
from fencepost.client.produce_queue import Delivery
from fencepost.wire.errors import ErrorCode


class RecordDelivery:
    """The fate of one record: its place in a batch, whose fate it shares."""

    __slots__ = ("_batch", "_index", "partition")

    def __init__(self, partition: TopicPartition, index: int) -> None:
        self.partition = partition
        self._index = index
        self._batch: Delivery | None = None

    @property
    def done(self) -> bool:
        return self._batch is not None and self._batch.done

    def result(self) -> int:
        """The record's offset, -1 if the broker did not tell; raises what delivery failed with,
        or ClientError while it is undecided (flush first)."""
        if self._batch is None:
            raise ClientError("the record is not sent yet; flush the producer first")
        base_offset = self._batch.result()
        return base_offset + self._index if base_offset >= 0 else -1


class OpenBatch:
    """Records of one partition that gather, and their deliveries."""

    __slots__ = ("builder", "deliveries", "opened_at", "partition")

    def __init__(self, partition: TopicPartition, config: ClientConfig) -> None:
        self.partition = partition
        self.builder = BatchBuilder(config.compression_type, level=config.compression_level)
        self.opened_at = time.monotonic()
        self.deliveries: list[RecordDelivery] = []

    def share(self, fate: Delivery) -> None:
        """The batch was queued, or given up: its records have this fate."""
        for delivery in self.deliveries:
            delivery._batch = fate

    def give_up(self, cause: ClientError) -> None:
        """The batch will not be sent."""
        fate = Delivery(self.partition, len(self.deliveries))
        fate.error, fate.done = cause, True
        self.share(fate)


class RecordAccumulator:
    """The open batches of one producer; see the module."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._open: dict[TopicPartition, OpenBatch] = {}
        self._sticky: dict[str, int] = {}
        self._turns: dict[str, int] = {}  # the partition that follows, of RoundRobinPartitioner

    @property
    def is_empty(self) -> bool:
        return not self._open

    def choose(
        self, topic: str, partition_count: int, key: bytes | None, partition: int | None
    ) -> TopicPartition:
        """Where a record goes. UnknownTopic for a partition that the topic has not."""
        if partition is not None:
            if not 0 <= partition < partition_count:
                raise UnknownTopic(
                    f"the topic has {partition_count} partitions",
                    topic=topic,
                    partition=partition,
                    code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
            return TopicPartition(topic, partition)
        if self._config.round_robin:
            turn = self._turns.get(topic, random.randrange(partition_count)) % partition_count
            self._turns[topic] = turn + 1
            return TopicPartition(topic, turn)
        if key is not None and not self._config.ignore_keys:
            return TopicPartition(topic, partition_for_key(key, partition_count))
        sticky = self._sticky.get(topic)
        if sticky is None or sticky >= partition_count:
            sticky = self._sticky[topic] = random.randrange(partition_count)
        return TopicPartition(topic, sticky)

    def append(
        self,
        where: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[Header],
        timestamp_ms: int | None,
    ) -> tuple[RecordDelivery, list[OpenBatch]]:
        """Add a record; also the batches that this closes, to be sent in this order.

        ClientError for one that no request of `max.request.size` could hold.
        """
        headers = tuple(headers)
        size = len(value or b"") + len(key or b"")
        size += sum(len(name) + len(content or b"") for name, content in headers)
        if size > self._config.max_request_size:
            raise ClientError(
                f"a record of {size} bytes exceeds "
                f"max.request.size={self._config.max_request_size}",
                topic=where.topic,
                partition=where.partition,
                code=ErrorCode.MESSAGE_TOO_LARGE,
            )
        closed = []
        batch = self._open.get(where)
        if batch is not None and batch.builder.size_bytes + size > self._config.max_request_size:
            closed.append(self._close(where))
            batch = None
        if batch is None:
            batch = OpenBatch(where, self._config)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        batch.builder.append(key, value, headers, timestamp_ms=timestamp_ms)
        self._open[where] = batch
        delivery = RecordDelivery(where, len(batch.deliveries))
        batch.deliveries.append(delivery)
        if batch.builder.size_bytes >= self._config.batch_size:
            closed.append(self._close(where))
        return delivery, closed + self.lingering()

    def lingering(self) -> list[OpenBatch]:
        """Close the batches that have been open for `linger.ms`."""
        due = time.monotonic() - self._config.linger_ms / 1000
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
        oldest = min(batch.opened_at for batch in self._open.values())
        return max(0.0, self._config.linger_ms - (time.monotonic() - oldest) * 1000)

    def _close(self, where: TopicPartition) -> OpenBatch:
        self._sticky.pop(where.topic, None)
        return self._open.pop(where)
