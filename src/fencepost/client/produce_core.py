"""What a producer of record batches decides, without I/O: what to send, what answers mean.

`BatchProducer` (blocking) and `aio.AsyncProducer` drive the same `ProduceCore`: they find leaders,
carry requests to them and answers back, and find producer ids. What one partition may do next is
decided in `produce_queue`; what a transaction allows in `protocol.transaction_manager`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from fencepost.batch.header import read_header, stamp_producer
from fencepost.batch.record_size import shown_bytes
from fencepost.batch.records import read_records
from fencepost.batch.splitting import split_batch
from fencepost.client.config import ClientConfig
from fencepost.client.errors import BrokerError, ClientError, DeliveryFailed, UnsupportedApi
from fencepost.client.metadata import Metadata, TopicPartition
from fencepost.client.produce_queue import (
    NO_IDENTITY,
    Delivery,
    Identity,
    PartitionQueue,
    QueuedBatch,
)
from fencepost.client.protocol.transaction_manager import TransactionManager
from fencepost.client.retry import Backoff, Deadline
from fencepost.wire.api.init_producer_id import InitProducerIdRequest
from fencepost.wire.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from fencepost.wire.errors import ErrorCode, is_retriable
from fencepost.wire.types import Uuid

log = logging.getLogger("fencepost.client")

LOWEST_VERSION = 3  # the first with record batches of format 2
LAST_VERSION_WITH_NAMES = 12
INIT_PRODUCER_ID_HIGHEST = 5  # 6 is for two-phase commit

Sent = list[tuple[PartitionQueue, QueuedBatch]]


class ProduceCore:
    """The queues of one producer and its identity; see the module.

    `note_failure` is told of errors that show metadata to be out of date.
    """

    def __init__(
        self,
        config: ClientConfig,
        metadata: Metadata,
        note_failure: Callable[[ClientError], None],
        transaction: TransactionManager | None = None,
    ) -> None:
        self.config = config
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.identity: Identity | None = None if config.enable_idempotence else NO_IDENTITY
        self.queued_bytes = 0
        self._queued: set[int] = set()
        self.first_failure: ClientError | None = None
        self.acknowledged_count = 0
        self.transaction = transaction
        self._metadata = metadata
        self._note_failure = note_failure

    # -- batches come ----------------------------------------------------------------------------

    def batch(
        self, topic: str, partition: int, batch: bytearray | bytes | memoryview, deadline: Deadline
    ) -> QueuedBatch:
        """One record batch, to be given to `add`. BatchError, ClientError on what is none, and on
        a bytearray that is queued already: it would be stamped for two partitions (S76)."""
        if id(batch) in self._queued:
            raise ClientError(
                "a bytearray was given while it is still queued; the producer has it until its"
                " delivery is decided",
                topic=topic,
                partition=partition,
            )
        header = read_header(batch)
        if header.size_bytes != len(batch) or header.records_count < 1:
            raise ClientError(
                f"a batch of {header.size_bytes} bytes and {header.records_count} records was "
                f"given as {len(batch)} bytes; needed is exactly one batch with records",
                topic=topic,
                partition=partition,
            )
        data = batch if isinstance(batch, bytearray) else bytearray(batch)
        delivery = Delivery(TopicPartition(topic, partition), header.records_count)
        return QueuedBatch(data, header.records_count, delivery, deadline)

    def has_room(self, size_bytes: int) -> bool:
        """Whether as much may be queued now."""
        return not self.queued_bytes or self.queued_bytes + size_bytes <= self.config.buffer_memory

    def add(self, batch: QueuedBatch) -> Delivery:
        """Queue a batch. Of a transactional producer it becomes part of the transaction; raises
        TransactionError or ClientError when there is none it could be part of."""
        where = batch.delivery.partition
        if self.transaction is not None:
            self.transaction.add_partition(where)
        queue = self._queue(where)
        queue.unsent.append(batch)
        self._note_queued(batch)
        self._maybe_split_unsent(queue, batch)
        return batch.delivery

    def _note_queued(self, batch: QueuedBatch) -> None:
        self.queued_bytes += len(batch.data)
        self._queued.add(id(batch.data))

    def _queue(self, where: TopicPartition) -> PartitionQueue:
        queue = self.queues.get(where)
        if queue is None:
            config = self.config
            queue = self.queues[where] = PartitionQueue(
                where,
                config.enable_idempotence,
                Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
                window=config.max_in_flight,
                transactional=self.transaction is not None,
            )
        if self.transaction is not None and self.transaction.identity is not None:
            queue.adopt(self.transaction.identity)
        return queue

    # -- batches go ------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether every batch is decided."""
        return all(queue.is_empty for queue in self.queues.values())

    def sendable(self) -> Iterator[tuple[PartitionQueue, QueuedBatch]]:
        """Batches that may leave now, one of a partition at most; `stamp` those that do."""
        transaction = self.transaction
        for queue in self.queues.values():
            batch = queue.sendable(time.monotonic())
            if batch is None:
                continue
            if transaction is None or transaction.may_produce(queue.partition):
                yield queue, batch

    def pause_s(self, limit_s: float) -> float:
        """Seconds until a queue may be tried again, at most `limit_s`."""
        now = time.monotonic()
        retries = [queue.retry_at - now for queue in self.queues.values() if not queue.is_empty]
        return max(0.0, min([limit_s, *retries]))

    @property
    def needs_identity(self) -> bool:
        """Whether a producer id is to be got: the first, or one for a partition that used up its
        epochs. A transactional producer has the one of its transactional id."""
        exhausted = any(queue.identity is None and queue.used for queue in self.queues.values())
        return self.identity is None or (exhausted and self.config.enable_idempotence)

    def identity_request(self) -> InitProducerIdRequest:
        """The request for a producer id, in version INIT_PRODUCER_ID_HIGHEST at most."""
        return InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=self.config.request_timeout_ms
        )

    def message(self, sent: Sent) -> tuple[ProduceRequest, int, int | None]:
        """The request for these batches, which are stamped now, and its lowest and highest
        version. All are led by one broker."""
        topics: dict[str, TopicProduceData] = {}
        by_id = True
        for queue, batch in sent:
            if queue.take(batch) and queue.idempotent:
                producer_id, epoch = batch.identity
                stamp_producer(
                    batch.data,
                    producer_id,
                    epoch,
                    batch.sequence,
                    transactional=queue.transactional,
                )
            name, partition = queue.partition
            known = self._metadata.topics.get(name)
            topic_id = known.topic_id if known else Uuid.ZERO
            by_id = by_id and topic_id != Uuid.ZERO
            data = topics.setdefault(
                name, TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
            )
            data.partition_data.append(PartitionProduceData(index=partition, records=batch.data))
        transaction = self.transaction
        request = ProduceRequest(
            transactional_id=transaction.transactional_id if transaction else None,
            acks=self.config.acks,
            timeout_ms=self.config.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        lowest, highest = transaction.produce_versions() if transaction else (None, None)
        limits = [one for one in (highest, None if by_id else LAST_VERSION_WITH_NAMES) if one]
        return request, lowest or LOWEST_VERSION, min(limits, default=None)

    # -- answers ---------------------------------------------------------------------------------

    def unanswered(self, sent: Sent) -> None:
        """With acks=0: what is written counts as delivered."""
        for queue, batch in sent:
            self._acknowledge(queue, batch, -1, -1)

    def take_answer(self, sent: Sent, response: Any, host: str) -> None:
        """The response to the request with these batches."""
        answers = {
            self._answered_partition(topic, entry): entry
            for topic in response.responses
            for entry in topic.partition_responses
        }
        for queue, batch in sent:
            entry = answers.get(queue.partition)
            if entry is None:
                gap = ClientError("the broker's answer left the partition out")
                self.fail(queue, batch, gap, in_doubt=True, host=host)
            else:
                self._apply(queue, batch, entry, host)

    def _answered_partition(self, topic: Any, entry: Any) -> TopicPartition:
        name = topic.name or self._metadata.names_by_id.get(Uuid(topic.topic_id)) or ""
        return TopicPartition(name, entry.index)

    def _acknowledge(
        self, queue: PartitionQueue, batch: QueuedBatch, base_offset: int, append_time_ms: int
    ) -> None:
        self._forget(batch)
        self.acknowledged_count += batch.count
        queue.acknowledge(batch, base_offset, append_time_ms, time.monotonic())

    def _apply(self, queue: PartitionQueue, batch: QueuedBatch, entry: Any, host: str) -> None:
        """One partition's verdict on one batch."""
        code = entry.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._acknowledge(queue, batch, entry.base_offset, entry.log_append_time_ms)
            return
        behind = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not queue.is_oldest(batch)
        error = BrokerError.of(
            code,
            entry.error_message or "Produce was refused",
            host=host,
            topic=queue.partition.topic,
            partition=queue.partition.partition,
        )
        if is_retriable(code) or behind:
            log.debug("will send a batch again after: %s", error)
            if not behind:
                self._note_failure(error)
                queue.last_error = error
            self._refuse(queue, batch, error, in_doubt=_may_be_appended(code))
            return
        if code == ErrorCode.MESSAGE_TOO_LARGE:
            if batch.count > 1:
                self._split_refused(queue, batch)
                return
            error.message = f"{error.message}; {_described(batch)}"
        self.fail(queue, batch, error, in_doubt=batch.in_doubt or _may_be_appended(code))

    # -- batches that are too large --------------------------------------------------------------

    def _split_refused(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        """Send the records of a batch that the topic takes none of the size of in smaller ones, as
        Kafka's producer does; and those that wait behind it, which would be refused as well.

        Should the batch be in the log, by a request whose answer got lost before the limit was
        lowered, its parts do not follow on what is there, and the broker refuses them."""
        most_bytes = len(batch.data) // 2
        known = queue.most_bytes
        queue.most_bytes = most_bytes if known is None else min(known, most_bytes)
        log.info(
            "%s takes no batches of %d bytes; they are split", queue.partition, len(batch.data)
        )
        for part in self._split(queue, batch, most_bytes):
            if queue.idempotent:
                producer_id, epoch = part.identity
                stamp_producer(
                    part.data, producer_id, epoch, part.sequence, transactional=queue.transactional
                )
        for waiting in list(queue.unsent):
            self._maybe_split_unsent(queue, waiting)

    def _maybe_split_unsent(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        if queue.most_bytes is not None and len(batch.data) > queue.most_bytes and batch.count > 1:
            self._split(queue, batch, queue.most_bytes)

    def _split(
        self, queue: PartitionQueue, batch: QueuedBatch, most_bytes: int
    ) -> list[QueuedBatch]:
        self._forget(batch)
        pieces = split_batch(batch.data, most_bytes, level=self.config.compression_level)
        counts = [read_header(piece).records_count for piece in pieces]
        parts = [
            QueuedBatch(piece, delivery.count, delivery, batch.deadline, in_doubt=batch.in_doubt)
            for piece, delivery in zip(pieces, batch.delivery.split(counts), strict=True)
        ]
        for part in parts:
            self._note_queued(part)
        queue.replace(batch, parts)
        for part in parts:
            if part.delivery.done:  # given up, because an earlier one failed
                self._count_failure(part)
        return parts

    def lose(self, lost: Sent, error: ClientError) -> None:
        """These batches were written to a broker, or could not be, and no answer will come."""
        for queue, batch in lost:
            if error.retriable:
                queue.last_error = error
                self._refuse(queue, batch, error, in_doubt=True)
            elif batch in queue.in_flight:
                in_doubt = batch.in_doubt or not isinstance(error, UnsupportedApi)
                self.fail(queue, batch, error, in_doubt=in_doubt)
        self._note_failure(error)

    def _refuse(
        self, queue: PartitionQueue, batch: QueuedBatch, error: ClientError, *, in_doubt: bool
    ) -> None:
        if batch.retries >= self.config.retries:
            self.fail(queue, batch, error, in_doubt=batch.in_doubt or in_doubt)
            return
        batch.retries += 1
        queue.refuse(batch, time.monotonic(), in_doubt=in_doubt)
        if batch.delivery.done:  # given up, because an earlier one failed
            self._count_failure(batch)

    def postpone(
        self, queue: PartitionQueue, batch: QueuedBatch, error: ClientError, *, gives_up: bool
    ) -> None:
        """A batch cannot be sent now; it fails when that cannot change, or with `gives_up`."""
        if error.retriable and not gives_up:
            self._note_failure(error)
            queue.retry_at = time.monotonic() + queue.backoff.next_ms() / 1000
            queue.last_error = error
        else:
            self.fail(queue, batch, error, in_doubt=batch.in_doubt)

    def fail(
        self,
        queue: PartitionQueue,
        batch: QueuedBatch,
        cause: ClientError,
        *,
        in_doubt: bool,
        host: str | None = None,
    ) -> None:
        """A batch will not be delivered, nor those that were sent behind it; a transaction that
        it is part of can only be aborted."""
        error = DeliveryFailed(
            f"{batch.count} records were not delivered: {cause.message}",
            topic=queue.partition.topic,
            partition=queue.partition.partition,
            in_doubt=in_doubt,
            host=host or cause.host,
            code=cause.code,
        )
        later = [item for item in queue.again if item.order > batch.order >= 0]
        queue.fail(batch, error)
        for decided in (batch, *later):
            self._count_failure(decided)
        if self.transaction is not None:
            self.transaction.on_produce_failure(error)

    def _forget(self, batch: QueuedBatch) -> None:
        self.queued_bytes -= len(batch.data)
        self._queued.discard(id(batch.data))

    def _count_failure(self, batch: QueuedBatch) -> None:
        self._forget(batch)
        if self.first_failure is None:
            self.first_failure = batch.delivery.error

    def expire(self) -> None:
        """Fail what could not be delivered in its time."""
        for queue in self.queues.values():
            for batch in queue.expired():
                if batch.delivery.done:
                    continue  # failed together with the one before it
                last = f"; last error: {queue.last_error}" if queue.last_error else ""
                cause = ClientError(
                    f"delivery.timeout.ms={self.config.delivery_timeout_ms} passed{last}"
                )
                self.fail(queue, batch, cause, in_doubt=batch.in_doubt)

    def abandon(self, cause: ClientError) -> None:
        """Fail every batch that is not on its way: the transaction will not be committed."""
        for queue in self.queues.values():
            for batch in (*queue.again, *queue.unsent):
                if not batch.delivery.done:
                    self.fail(queue, batch, cause, in_doubt=batch.in_doubt)


def _described(batch: QueuedBatch) -> str:
    """A batch of one record, for the error that it is too large."""
    record = next(iter(read_records(batch.data)))
    key = "no key" if record.key is None else f"key {shown_bytes(record.key)}"
    return f"a record ({key}) alone takes {len(batch.data)} bytes"


_MAYBE_APPENDED: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
_KNOWN_CODES: Final = frozenset(ErrorCode)


def _may_be_appended(code: int) -> bool:
    """Whether a batch that was answered so may be in the log all the same.

    It is open after an error that is not known here (KAFKA-14034).
    """
    return code in _MAYBE_APPENDED or code not in _KNOWN_CODES
