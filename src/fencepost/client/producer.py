"""A producer of single records, on top of `BatchProducer`.

Records gather in one open batch per partition, which is closed and queued when it reaches
`batch.size`, when it has been open for `linger.ms`, and by `flush`. Every call looks at the time;
there is no thread, so whoever waits for something else calls `poll` within `next_poll_ms`.
Partitions: as given, else by the key as Kafka's default partitioner does, else sticky (KIP-480):
keyless records stay with one partition until its batch closes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable

from fencepost.batch.partitioner import partition_for_key
from fencepost.batch.records import BatchBuilder, Header
from fencepost.client.batch_producer import BatchProducer
from fencepost.client.cluster import Cluster
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


class _OpenBatch:
    __slots__ = ("builder", "deliveries", "opened_at")

    def __init__(self, compression: str) -> None:
        self.builder = BatchBuilder(compression=compression)
        self.opened_at = time.monotonic()
        self.deliveries: list[RecordDelivery] = []


class Producer(BatchProducer):
    """Idempotent producer for single records and for ready batches."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._open: dict[TopicPartition, _OpenBatch] = {}
        self._sticky: dict[str, int] = {}

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Iterable[Header] = (),
        timestamp_ms: int | None = None,
    ) -> RecordDelivery:
        """Add a record; `timestamp_ms` is now by default. The offset shows after `flush`.

        Raises UnknownTopic for a partition that the topic has not, and ClientError for a record
        that no request of `max.request.size` could hold.
        """
        where = self._choose(topic, key, partition)
        headers = tuple(headers)
        size = len(value or b"") + len(key or b"")
        size += sum(len(name) + len(content or b"") for name, content in headers)
        if size > self.config.max_request_size:
            raise ClientError(
                f"a record of {size} bytes exceeds max.request.size={self.config.max_request_size}",
                topic=topic,
                partition=where.partition,
                code=ErrorCode.MESSAGE_TOO_LARGE,
            )
        batch = self._open.get(where)
        if batch is not None and batch.builder.size_bytes + size > self.config.max_request_size:
            self._close_batch(where)
            batch = None
        if batch is None:
            batch = _OpenBatch(self.config.compression_type)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        batch.builder.append(key, value, headers, timestamp_ms=timestamp_ms)
        self._open[where] = batch
        delivery = RecordDelivery(where, len(batch.deliveries))
        batch.deliveries.append(delivery)
        if batch.builder.size_bytes >= self.config.batch_size:
            self._close_batch(where)
        else:
            self._close_lingering()
        return delivery

    def poll(self, wait_ms: float = 0) -> None:
        """Queue batches that have lingered long enough, then do as `BatchProducer.poll` does."""
        self._close_lingering()
        super().poll(wait_ms)

    def next_poll_ms(self) -> float | None:
        """Milliseconds within which `poll` wants to be called; None when nothing is undelivered."""
        if (undecided := super().next_poll_ms()) is not None or not self._open:
            return undecided
        oldest = min(batch.opened_at for batch in self._open.values())
        return max(0.0, self.config.linger_ms - (time.monotonic() - oldest) * 1000)

    def flush(self, timeout_ms: float | None = None) -> None:
        """Send every open batch and wait, as `BatchProducer.flush` does."""
        for where in list(self._open):
            self._close_batch(where)
        super().flush(timeout_ms)

    def _choose(self, topic: str, key: bytes | None, partition: int | None) -> TopicPartition:
        count = len(self.cluster.topic(topic).partitions)
        if partition is not None:
            if not 0 <= partition < count:
                raise UnknownTopic(
                    f"the topic has {count} partitions",
                    topic=topic,
                    partition=partition,
                    code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
            return TopicPartition(topic, partition)
        if key is not None:
            return TopicPartition(topic, partition_for_key(key, count))
        sticky = self._sticky.get(topic)
        if sticky is None or sticky >= count:
            sticky = self._sticky[topic] = random.randrange(count)
        return TopicPartition(topic, sticky)

    def _close_batch(self, where: TopicPartition) -> None:
        batch = self._open.pop(where, None)
        if batch is None:  # closing another one has polled, which has closed this one
            return
        self._sticky.pop(where.topic, None)
        fate = self.send_batch(where.topic, where.partition, batch.builder.build())
        for delivery in batch.deliveries:
            delivery._batch = fate

    def _close_lingering(self) -> None:
        due = time.monotonic() - self.config.linger_ms / 1000
        for where in [place for place, batch in self._open.items() if batch.opened_at <= due]:
            self._close_batch(where)
