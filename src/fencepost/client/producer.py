"""A producer of single records, on top of `BatchProducer`.

Records gather in `accumulator`, which says when a batch is closed and queued. Every call looks at
the time; there is no thread, so a caller that waits for something else calls `poll` within
`next_poll_ms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fencepost.batch.records import Header
from fencepost.client.accumulator import (
    OpenBatch,
    RecordAccumulator,
    RecordDelivery as RecordDelivery,
)
from fencepost.client.batch_producer import BatchProducer
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError
from fencepost.client.transactional import aborted_by_user


class Producer(BatchProducer):
    """Idempotent or transactional producer for single records and for ready batches."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._accumulator = RecordAccumulator(self.config)

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

        Raises UnknownTopic for a partition that the topic has not, ClientError for a record that
        no request of `max.request.size` could hold, and what `send_batch` does.
        """
        self.require_transaction()
        info = self.cluster.fresh_topic(topic) or self.cluster.topic(topic)
        batch, index, closed = self._accumulator.add(
            topic, len(info.partitions), value, key, partition, headers, timestamp_ms
        )
        if closed:
            self._queue_closed(closed)
        return RecordDelivery(batch, index)

    def poll(self, wait_ms: float = 0) -> None:
        """Queue batches that have lingered long enough, then do as `BatchProducer.poll` does."""
        self._queue_closed(self._accumulator.lingering())
        super().poll(wait_ms)

    def next_poll_ms(self) -> float | None:
        """Milliseconds within which `poll` wants to be called; None when nothing is undelivered."""
        undecided = super().next_poll_ms()
        return self._accumulator.next_due_ms() if undecided is None else undecided

    def flush(self, timeout_ms: float | None = None) -> None:
        """Send every open batch and wait, as `BatchProducer.flush` does."""
        self._queue_closed(self._accumulator.close_all())
        super().flush(timeout_ms)

    def abort_transaction(self) -> None:
        """Give up what was sent since the transaction began, open batches included."""
        for batch in self._accumulator.close_all():
            batch.give_up(aborted_by_user())
        super().abort_transaction()

    def _queue_closed(self, batches: Sequence[OpenBatch]) -> None:
        for number, batch in enumerate(batches):
            where = batch.partition
            try:
                batch.fate = self.send_batch(where.topic, where.partition, batch.build())
            except ClientError as error:
                for lost in batches[number:]:
                    lost.give_up(error)
                raise
