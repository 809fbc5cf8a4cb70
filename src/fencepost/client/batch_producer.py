"""Sending ready record batches, for one thread: batches in, acknowledgements out, nothing twice.

Batches are queued per partition, sent to leaders with several requests in flight, and acknowledged
by every in-sync replica before a delivery counts. There is no thread: sending and receiving happen
inside `send_batch`, `poll` and `flush`, in the caller's time.

Why retries neither reorder nor duplicate (KIP-98, KIP-360): every batch carries (producer id,
epoch, first sequence), the sequence growing by the records before it in its partition. A broker
accepts only the next sequence and recognises the last five batches when they come again.

* A batch keeps its identity over all its retries, so a retry after a lost answer is either
  accepted once or answered as a duplicate, which counts as delivered.
* When one batch fails retriably, all of its partition's batches in flight are awaited, and what was
  refused goes out again in sequence order.
* Until a partition has acknowledged one batch, only one is in flight: a leader without any state
  for a producer takes whatever sequence comes first, so a second one must not overtake.
* When a batch fails for good, the batches sent behind it fail with it (they could only be refused)
  and the partition goes on with its epoch raised by one and sequences from 0: whatever of the old
  epoch is still on its way is then fenced, so nothing appears behind newer records.

What a partition may do next is `PartitionQueue`'s decision, in `produce_queue`; this module moves
the bytes.
"""

from __future__ import annotations

import logging
import select
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Self

from fencepost.batch.header import read_header, stamp_producer
from fencepost.client.cluster import Cluster
from fencepost.client.connection import Connection
from fencepost.client.errors import (
    BrokerError,
    ClientError,
    DeadlineExceeded,
    DeliveryFailed,
    RequestTimedOut,
    UnknownTopic,
    UnsupportedApi,
)
from fencepost.client.metadata import Node, TopicPartition
from fencepost.client.produce_queue import (
    NO_IDENTITY,
    Delivery,
    Identity,
    PartitionQueue,
    QueuedBatch,
)
from fencepost.client.protocol.in_flight import Token
from fencepost.client.retry import Deadline
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
# How long a wait for answers may last before queues are looked at again, in milliseconds.
IDLE_WAIT_MS = 50.0

Sent = list[tuple[PartitionQueue, QueuedBatch]]


@dataclass(slots=True, eq=False)
class _Request:
    """One ProduceRequest on its way."""

    token: Token
    sent: Sent
    deadline: Deadline


@dataclass(slots=True, eq=False)
class _Channel:
    """A broker we produce to: its connection and the requests it has not answered."""

    node: Node
    connection: Connection
    requests: deque[_Request] = field(default_factory=deque)


class BatchProducer:
    """Sends ready record batches; see the module for its guarantees. A context manager.

    All settings come from the cluster's ClientConfig. Leaving the context flushes, unless an
    exception is on its way.
    """

    def __init__(self, cluster: Cluster) -> None:
        cluster.config.check()
        self.cluster = cluster
        self.config = cluster.config
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._channels: dict[int, _Channel] = {}
        self._identity: Identity | None = None if self.config.enable_idempotence else NO_IDENTITY
        self._queued_bytes = 0
        self._first_failure: ClientError | None = None
        self.acknowledged_count = 0
        """Records so far that the brokers have acknowledged (with acks=0: that were sent)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is None:
            self.flush()

    def send_batch(
        self, topic: str, partition: int, batch: bytearray | bytes | memoryview
    ) -> Delivery:
        """Queue one record batch of format 2, such as `encode_columns` or `BatchBuilder` make.

        A bytearray is stamped in place (producer id, sequence, CRC); other buffers are copied.
        Blocks while more than `buffer.memory` bytes are queued. Raises BatchError on what is no
        batch; delivery errors show in the Delivery and in `flush`.
        """
        header = read_header(batch)
        if header.size_bytes != len(batch) or header.records_count < 1:
            raise ClientError(
                f"a batch of {header.size_bytes} bytes and {header.records_count} records was "
                f"given as {len(batch)} bytes; needed is exactly one batch with records",
                topic=topic,
                partition=partition,
            )
        data = batch if isinstance(batch, bytearray) else bytearray(batch)
        where = TopicPartition(topic, partition)
        delivery = Delivery(where, header.records_count)
        deadline = Deadline(self.config.delivery_timeout_ms)
        queued = QueuedBatch(data, header.records_count, delivery, deadline)
        self._make_room(len(data), deadline)
        self._queue(where).unsent.append(queued)
        self._queued_bytes += len(data)
        self.poll()
        return delivery

    def poll(self, wait_ms: float = 0) -> None:
        """Send what may be sent and take in answers, waiting at most `wait_ms` for one."""
        self._expire()
        self._dispatch()
        if self._collect(wait_ms):
            self._dispatch()

    def next_poll_ms(self) -> float | None:
        """Milliseconds within which `poll` wants to be called; None when nothing is undelivered."""
        return IDLE_WAIT_MS if any(not queue.is_empty for queue in self._queues.values()) else None

    def raise_failure(self) -> None:
        """Raise the first failure since the last time one was raised, without waiting."""
        if self._first_failure is not None:
            error, self._first_failure = self._first_failure, None
            raise error

    def flush(self, timeout_ms: float | None = None) -> None:
        """Return when every batch is decided; raise the first failure since the last flush.

        Without `timeout_ms` the batches' own delivery timeouts bound the time.
        """
        deadline = Deadline(timeout_ms) if timeout_ms is not None else None
        while any(not queue.is_empty for queue in self._queues.values()):
            if deadline is not None and deadline.passed:
                raise DeadlineExceeded(
                    f"records were still undelivered after {timeout_ms:.0f} ms",
                    self._first_failure,
                )
            self.poll(IDLE_WAIT_MS)
        self.raise_failure()

    def _make_room(self, size_bytes: int, deadline: Deadline) -> None:
        while self._queued_bytes and self._queued_bytes + size_bytes > self.config.buffer_memory:
            if deadline.passed:
                raise DeadlineExceeded(
                    f"{self._queued_bytes} bytes are queued and none could be delivered within "
                    f"{deadline.timeout_ms:.0f} ms",
                    self._first_failure,
                )
            self.poll(IDLE_WAIT_MS)

    def _queue(self, where: TopicPartition) -> PartitionQueue:
        queue = self._queues.get(where)
        if queue is None:
            queue = self._queues[where] = PartitionQueue(
                where,
                self.config.enable_idempotence,
                self.cluster.backoff(),
                window=self.config.max_in_flight,
            )
        return queue

    # -- sending ---------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Write requests until nothing more may be sent. A request has at most one batch of a
        partition, as brokers demand."""
        while True:
            grouped: dict[int, tuple[_Channel, Sent, int]] = {}
            for queue in self._queues.values():
                self._add_sendable(queue, grouped)
            if not grouped:
                return
            for channel, sent, _ in grouped.values():
                self._send(channel, sent)

    def _add_sendable(
        self, queue: PartitionQueue, grouped: dict[int, tuple[_Channel, Sent, int]]
    ) -> None:
        batch = queue.sendable(time.monotonic())
        if batch is None:
            return
        try:
            channel = self._channel_for(queue, batch)
        except ClientError as error:
            self._cannot_send(queue, batch, error)
            return
        queue.unknown_topic_attempts = 0
        if channel is None:
            return
        _, sent, size = grouped.get(channel.node.node_id, (channel, [], 0))
        if sent and size + len(batch.data) > self.config.max_request_size:
            return
        sent.append((queue, batch))
        grouped[channel.node.node_id] = (channel, sent, size + len(batch.data))

    def _channel_for(self, queue: PartitionQueue, batch: QueuedBatch) -> _Channel | None:
        """The leader's channel; None while it is full, or while answers from the leader before
        this one are outstanding. Also gets the producer its identity."""
        where = queue.partition
        node, _ = self.cluster.leader(where.topic, where.partition, batch.deadline)
        for channel in self._channels.values():
            if channel.node.node_id != node.node_id and _awaits(channel, queue):
                return None
        if queue.identity is None:
            queue.identity = self._take_identity(batch.deadline)
        found = self._channels.get(node.node_id)
        if found is not None and found.requests:
            may_send = len(found.requests) < self.config.max_in_flight
            return found if may_send and found.connection.is_open else None
        connection = self.cluster.connection(node)
        if found is None or found.connection is not connection:
            found = self._channels[node.node_id] = _Channel(node, connection)
        return found

    def _take_identity(self, deadline: Deadline) -> Identity:
        """The shared producer id, or a new one for a partition that used up its epochs."""
        exhausted = any(queue.identity is None and queue.used for queue in self._queues.values())
        if self._identity is None or (exhausted and self.config.enable_idempotence):
            try:
                response = self.cluster.request_any(
                    InitProducerIdRequest(
                        transactional_id=None,
                        transaction_timeout_ms=self.config.request_timeout_ms,
                    ),
                    lambda r: r.error_code,
                    highest=INIT_PRODUCER_ID_HIGHEST,
                    deadline=deadline,
                )
            except UnsupportedApi as error:
                raise UnsupportedApi(
                    f"{error.message}; set enable.idempotence=false for this cluster",
                    host=error.host,
                ) from error
            self._identity = Identity(response.producer_id, response.producer_epoch)
        return self._identity

    def _cannot_send(self, queue: PartitionQueue, batch: QueuedBatch, error: ClientError) -> None:
        if isinstance(error, UnknownTopic):
            queue.unknown_topic_attempts += 1
        if error.retriable and queue.unknown_topic_attempts < self.cluster.unknown_topic_attempts:
            self.cluster.note_failure(error)
            queue.retry_at = time.monotonic() + queue.backoff.next_ms() / 1000
            queue.last_error = error
        else:
            self._fail(queue, batch, error, in_doubt=batch.in_doubt)

    def _send(self, channel: _Channel, sent: Sent) -> None:
        for queue, batch in sent:
            if queue.take(batch) and queue.idempotent:
                producer_id, epoch = batch.identity
                stamp_producer(batch.data, producer_id, epoch, batch.sequence)
        message, by_id = self._message(sent)
        acknowledged = self.config.acks != 0
        try:
            version = channel.connection.version_for(
                ProduceRequest,
                lowest=LOWEST_VERSION,
                highest=None if by_id else LAST_VERSION_WITH_NAMES,
            )
            token = channel.connection.send(message, version, expect_response=acknowledged)
        except ClientError as error:
            self._lose(channel, list(sent), error)
            return
        if acknowledged:
            deadline = Deadline(self.config.request_timeout_ms)
            channel.requests.append(_Request(token, sent, deadline))
            return
        for queue, batch in sent:
            self._queued_bytes -= len(batch.data)
            self.acknowledged_count += batch.count
            queue.acknowledge(batch, -1, -1, time.monotonic())

    def _message(self, sent: Sent) -> tuple[ProduceRequest, bool]:
        topics: dict[str, TopicProduceData] = {}
        by_id = True
        for queue, batch in sent:
            name, partition = queue.partition
            known = self.cluster.metadata.topics.get(name)
            topic_id = known.topic_id if known else Uuid.ZERO
            by_id = by_id and topic_id != Uuid.ZERO
            data = topics.setdefault(
                name, TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
            )
            data.partition_data.append(PartitionProduceData(index=partition, records=batch.data))
        request = ProduceRequest(
            acks=self.config.acks,
            timeout_ms=self.config.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        return request, by_id

    # -- answers ---------------------------------------------------------------------------------

    def _collect(self, wait_ms: float) -> bool:
        """Take in the answers that are there; wait for the first one up to `wait_ms`."""
        waiting = [channel for channel in self._channels.values() if channel.requests]
        if not waiting:
            if wait_ms:
                time.sleep(self._pause_s(wait_ms))
            return False
        some = any(channel.connection.readable() for channel in waiting)
        if not some and wait_ms:
            open_ones = [c.connection for c in waiting if c.connection.is_open]
            if open_ones:
                select.select(open_ones, [], [], wait_ms / 1000)
        collected = False
        for channel in waiting:
            while channel.requests:
                request = channel.requests[0]
                if channel.connection.readable():
                    self._receive(channel, request)
                elif request.deadline.passed:
                    self._time_out(channel)
                else:
                    break
                collected = True
        return collected

    def _pause_s(self, wait_ms: float) -> float:
        """Seconds until a queue may be tried again, at most `wait_ms`."""
        now = time.monotonic()
        retries = [queue.retry_at - now for queue in self._queues.values() if not queue.is_empty]
        return max(0.0, min([wait_ms / 1000, *retries]))

    def _receive(self, channel: _Channel, request: _Request) -> None:
        try:
            response = channel.connection.receive(request.token)
        except ClientError as error:
            self._lose(channel, [], error)
            return
        channel.requests.popleft()
        answers = {
            self._answered_partition(topic, entry): entry
            for topic in response.responses
            for entry in topic.partition_responses
        }
        for queue, batch in request.sent:
            entry = answers.get(queue.partition)
            if entry is None:
                gap = ClientError("the broker's answer left the partition out")
                self._fail(queue, batch, gap, in_doubt=True, host=channel.node.address)
            else:
                self._apply(channel, queue, batch, entry)

    def _answered_partition(self, topic: Any, entry: Any) -> TopicPartition:
        name = topic.name or self.cluster.topic_name(Uuid(topic.topic_id)) or ""
        return TopicPartition(name, entry.index)

    def _apply(
        self, channel: _Channel, queue: PartitionQueue, batch: QueuedBatch, entry: Any
    ) -> None:
        """One partition's verdict on one batch."""
        code = entry.error_code
        now = time.monotonic()
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._queued_bytes -= len(batch.data)
            self.acknowledged_count += batch.count
            queue.acknowledge(batch, entry.base_offset, entry.log_append_time_ms, now)
            return
        behind = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not queue.is_oldest(batch)
        error = BrokerError.of(
            code,
            entry.error_message or "Produce was refused",
            host=channel.node.address,
            topic=queue.partition.topic,
            partition=queue.partition.partition,
        )
        if is_retriable(code) or behind:
            log.debug("will send a batch again after: %s", error)
            if not behind:
                self.cluster.note_failure(error)
                queue.last_error = error
            self._refuse(queue, batch, in_doubt=code in _MAYBE_APPENDED)
            return
        self._fail(queue, batch, error, in_doubt=batch.in_doubt or code in _MAYBE_APPENDED)

    def _time_out(self, channel: _Channel) -> None:
        error = RequestTimedOut(
            f"no ProduceResponse within {self.config.request_timeout_ms} ms",
            host=channel.node.address,
        )
        self._lose(channel, [], error)

    def _lose(self, channel: _Channel, lost: Sent, error: ClientError) -> None:
        """The connection is of no use any more: nobody will answer what was sent on it, nor
        `lost`, which could not be written."""
        channel.connection.close()
        if self._channels.get(channel.node.node_id) is channel:
            del self._channels[channel.node.node_id]
        # Those still on the channel came before `lost` and are as lost as they are.
        lost = [entry for item in channel.requests for entry in item.sent] + lost
        channel.requests.clear()
        for queue, batch in lost:
            if error.retriable:
                queue.last_error = error
                self._refuse(queue, batch, in_doubt=True)
            elif batch in queue.in_flight:
                in_doubt = batch.in_doubt or not isinstance(error, UnsupportedApi)
                self._fail(queue, batch, error, in_doubt=in_doubt)
        self.cluster.note_failure(error)

    def _refuse(self, queue: PartitionQueue, batch: QueuedBatch, *, in_doubt: bool) -> None:
        queue.refuse(batch, time.monotonic(), in_doubt=in_doubt)
        if batch.delivery.done:  # given up, because an earlier one failed
            self._count_failure(batch)

    def _fail(
        self,
        queue: PartitionQueue,
        batch: QueuedBatch,
        cause: ClientError,
        *,
        in_doubt: bool,
        host: str | None = None,
    ) -> None:
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

    def _count_failure(self, batch: QueuedBatch) -> None:
        self._queued_bytes -= len(batch.data)
        if self._first_failure is None:
            self._first_failure = batch.delivery.error

    def _expire(self) -> None:
        for queue in self._queues.values():
            for batch in queue.expired():
                if batch.delivery.done:
                    continue  # failed together with the one before it
                last = f"; last error: {queue.last_error}" if queue.last_error else ""
                cause = ClientError(
                    f"delivery.timeout.ms={self.config.delivery_timeout_ms} passed{last}"
                )
                self._fail(queue, batch, cause, in_doubt=batch.in_doubt)


_MAYBE_APPENDED = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}


def _awaits(channel: _Channel, queue: PartitionQueue) -> bool:
    return any(entry[0] is queue for item in channel.requests for entry in item.sent)
