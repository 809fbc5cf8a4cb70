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

What is sent and what answers mean is decided in `produce_core` and `produce_queue`; this module
moves the bytes.

With `transactional.id` set the producer is transactional: batches are part of a transaction, which
readers with `isolation.level=read_committed` see as a whole or not at all.

    producer.init_transactions()                  # once; fences who used the id before
    with producer.transaction():                  # commits, or aborts when an exception leaves it
        producer.send_batch("orders", 0, batch)
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())

A TransactionError says what is left to do: abort (AbortableTransactionError), or nothing but close
(FatalTransactionError, of which ProducerFenced is one).
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.client.connection import Connection, wait_readable
from fencepost.client.errors import (
    ClientError,
    DeadlineExceeded,
    RequestTimedOut,
    UnknownTopic,
    UnsupportedApi,
)
from fencepost.client.metadata import CommittedOffset, Node, TopicPartition
from fencepost.client.open_transactions import OpenTransaction
from fencepost.client.produce_core import INIT_PRODUCER_ID_HIGHEST, ProduceCore, Sent
from fencepost.client.produce_queue import Delivery, Identity, PartitionQueue, QueuedBatch
from fencepost.client.protocol.in_flight import Token
from fencepost.client.protocol.prepared import PreparedTxnState
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.client.retry import Deadline
from fencepost.client.transactional import TransactionDriver
from fencepost.wire.api.produce import ProduceRequest

# How long a wait for answers may last before queues are looked at again, in milliseconds.
IDLE_WAIT_MS = 50.0


@dataclass(slots=True, eq=False)
class _Request:
    """One ProduceRequest on its way."""

    token: Token[Any]
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

    All settings come from `config`, by default the cluster's ClientConfig. Leaving the context
    flushes, unless an exception is on its way.
    """

    def __init__(self, cluster: Cluster, config: ClientConfig | None = None) -> None:
        self.cluster = cluster
        self.config = config or cluster.config
        self.config.check()
        self._channels: dict[int, _Channel] = {}
        self._transactions = (
            TransactionDriver(
                cluster, self.config.transactional_id, self.config.transaction_timeout_ms
            )
            if self.config.transactional_id is not None
            else None
        )
        self._core = ProduceCore(
            self.config,
            cluster.metadata,
            cluster.note_failure,
            self._transactions.manager if self._transactions else None,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is None:
            self.flush()

    @property
    def acknowledged_count(self) -> int:
        """Records so far that the brokers have acknowledged (with acks=0: that were sent)."""
        return self._core.acknowledged_count

    def send_batch(
        self, topic: str, partition: int, batch: bytearray | bytes | memoryview
    ) -> Delivery:
        """Queue one record batch of format 2, such as `encode_columns` or `BatchBuilder` make.

        A bytearray is stamped in place (producer id, sequence, CRC), and is the producer's until
        its delivery is decided; other buffers are copied.
        Blocks while more than `buffer.memory` bytes are queued. Raises BatchError on what is no
        batch, and of a transactional producer TransactionError, or ClientError without a
        transaction; delivery errors show in the Delivery and in `flush`.
        """
        return self.send_batches(topic, [(partition, batch)])[0]

    def send_batches(
        self, topic: str, batches: Iterable[tuple[int, bytearray | bytes | memoryview]]
    ) -> list[Delivery]:
        """Queue (partition, batch) for each of them, as `send_batch` does for one.

        They are all queued before any is sent, so requests to a leader get a batch of as many of
        its partitions as they may have.
        """
        deliveries = []
        for partition, batch in batches:
            deadline = Deadline(self.config.delivery_timeout_ms)
            queued = self._core.batch(topic, partition, batch, deadline)
            self._make_room(len(queued.data), deadline)
            deliveries.append(self._core.add(queued))
        self.poll()
        return deliveries

    def poll(self, wait_ms: float = 0) -> None:
        """Send what may be sent and take in answers, waiting at most `wait_ms` for one."""
        self._core.expire()
        self._dispatch()
        if self._collect(wait_ms):
            self._dispatch()

    def next_poll_ms(self) -> float | None:
        """Milliseconds within which `poll` wants to be called; None when nothing is undelivered."""
        return None if self._core.is_idle else IDLE_WAIT_MS

    def raise_failure(self) -> None:
        """Raise the first failure since the last time one was raised, without waiting."""
        core = self._core
        if core.first_failure is not None:
            error, core.first_failure = core.first_failure, None
            raise error

    def flush(self, timeout_ms: float | None = None) -> None:
        """Return when every batch is decided; raise the first failure since the last flush.

        Without `timeout_ms` the batches' own delivery timeouts bound the time.
        """
        deadline = Deadline(timeout_ms) if timeout_ms is not None else None
        while not self._core.is_idle:
            if deadline is not None and deadline.passed:
                raise DeadlineExceeded(
                    f"records were still undelivered after {timeout_ms:.0f} ms",
                    self._core.first_failure,
                )
            self.poll(IDLE_WAIT_MS)
        self.raise_failure()

    def _make_room(self, size_bytes: int, deadline: Deadline) -> None:
        while not self._core.has_room(size_bytes):
            if deadline.passed:
                raise DeadlineExceeded(
                    f"{self._core.queued_bytes} bytes are queued and none could be delivered "
                    f"within {deadline.timeout_ms:.0f} ms",
                    self._core.first_failure,
                )
            self.poll(IDLE_WAIT_MS)

    # -- transactions ----------------------------------------------------------------------------

    def init_transactions(self, *, keep_prepared_txn: bool = False) -> None:
        """Get a producer id for `transactional.id`: producers that had it before are fenced, and
        what they left open is aborted. To be called once, before any transaction.

        With `keep_prepared_txn` what is open is taken to be prepared (KIP-939), and kept for
        `complete_transaction`; a broker that cannot answers UNSUPPORTED_VERSION, as Kafka up to 4.3
        and Fencepost do.

        FatalTransactionError; DeadlineExceeded (`default.api.timeout.ms`): call again.
        """
        self.cluster.run(self._driver().initialize(keep_prepared=keep_prepared_txn))

    def begin_transaction(self) -> None:
        """What is sent from now on is part of a transaction. ClientError inside of one."""
        self._driver().begin(self._core)

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset | int],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit a consumer group's offsets (of the next records to read) with the transaction.

        With the metadata of a member (`Consumer.consumer_group_metadata`) the coordinator
        refuses them when the group has rebalanced since; AbortableTransactionError then.
        """
        self.cluster.run(self._driver().send_offsets(offsets, group_metadata))

    def prepare_transaction(self) -> PreparedTxnState:
        """Deliver everything; from now on the transaction can only be committed, aborted or
        completed. The first phase of a two-phase commit (KIP-939); needs
        `transaction.two.phase.commit.enable`. Errors as `commit_transaction`.

        Store the text of the state with what is to be atomic with the transaction, then call
        `complete_transaction` with what is stored.
        """
        return self.cluster.run(self._driver().prepare(self.flush))

    def complete_transaction(self, state: PreparedTxnState) -> None:
        """Commit the prepared transaction if it is the one of `state`, else abort it. Errors as
        `commit_transaction`; ClientError if none is prepared."""
        if self._driver().manager.is_prepared_as(state):
            self.commit_transaction()
        else:
            self.abort_transaction()

    def commit_transaction(self) -> None:
        """Deliver everything and commit.

        AbortableTransactionError when a record or offset could not be delivered (call
        `abort_transaction`), FatalTransactionError; DeadlineExceeded (`default.api.timeout.ms`):
        whether it is committed is not known yet, call again.
        """
        self.cluster.run(self._driver().commit(self.flush))

    def abort_transaction(self) -> None:
        """Give up what was sent since the transaction began. Errors as `commit_transaction`."""
        self.cluster.run(self._driver().abort(self._core, self._wait_for_answers))

    def leave_open(self) -> OpenTransaction | None:
        """Deliver everything and leave the transaction for another process to end, with
        `open_transactions.end_all`; None when nothing was sent in it.

        Errors as `commit_transaction`. The producer is of no use afterwards.
        """
        return self.cluster.run(self._driver().leave_open(self.flush))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """A transaction around a block: committed at its end, aborted when an exception leaves
        it, or when it cannot be committed; that exception is raised then."""
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException:
            if self._driver().manager.is_open:
                with contextlib.suppress(ClientError):  # the coordinator has aborted it, or will
                    self.abort_transaction()
            raise

    def require_transaction(self) -> None:
        """Raise TransactionError or ClientError where records could not be part of a transaction,
        but would have to be."""
        if self._transactions is not None:
            self._transactions.manager.require_transaction()

    def _driver(self) -> TransactionDriver:
        if self._transactions is None:
            raise ClientError("transactions need transactional.id in the client's config")
        return self._transactions

    # -- sending ---------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Write requests until nothing more may be sent. A request has at most one batch of a
        partition, as brokers demand."""
        if self._transactions is not None:
            ended_by = self.cluster.run(self._transactions.keep_up())
            if ended_by is not None:
                self._core.abandon(ended_by)
        while True:
            grouped: dict[int, tuple[_Channel, Sent, int]] = {}
            for queue, batch in self._core.sendable():
                self._add_sendable(queue, batch, grouped)
            if not grouped:
                return
            for channel, sent, _ in grouped.values():
                self._send(channel, sent)

    def _add_sendable(
        self,
        queue: PartitionQueue,
        batch: QueuedBatch,
        grouped: dict[int, tuple[_Channel, Sent, int]],
    ) -> None:
        try:
            channel = self._channel_for(queue, batch)
        except ClientError as error:
            queue.unknown_topic_attempts += isinstance(error, UnknownTopic)
            limit = self.cluster.unknown_topic_attempts
            gives_up = queue.unknown_topic_attempts >= limit
            self._core.postpone(queue, batch, error, gives_up=gives_up)
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
        core = self._core
        if core.needs_identity:
            try:
                response = self.cluster.request_any(
                    core.identity_request(),
                    lambda r: r.error_code,
                    highest=INIT_PRODUCER_ID_HIGHEST,
                    deadline=deadline,
                )
            except UnsupportedApi as error:
                raise UnsupportedApi(
                    f"{error.message}; set enable.idempotence=false for this cluster",
                    host=error.host,
                ) from error
            core.identity = Identity(response.producer_id, response.producer_epoch)
        assert core.identity is not None
        return core.identity

    def _send(self, channel: _Channel, sent: Sent) -> None:
        message, lowest, highest = self._core.message(sent)
        acknowledged = self.config.acks != 0
        connection = channel.connection
        try:
            version = connection.version_for(ProduceRequest, lowest=lowest, highest=highest)
            token = connection.send(message, version, expect_response=acknowledged)
        except ClientError as error:
            self._lose(channel, list(sent), error)
            return
        if acknowledged:
            deadline = Deadline(self.config.request_timeout_ms)
            channel.requests.append(_Request(token, sent, deadline))
        else:
            self._core.unanswered(sent)

    # -- answers ---------------------------------------------------------------------------------

    def _wait_for_answers(self, _: None = None) -> None:
        if not self._core.is_idle:
            self._collect(IDLE_WAIT_MS)

    def _collect(self, wait_ms: float) -> bool:
        """Take in the answers that are there; wait for the first one up to `wait_ms`."""
        waiting = [channel for channel in self._channels.values() if channel.requests]
        if not waiting:
            if wait_ms:
                time.sleep(self._pause_s(wait_ms / 1000))
            return False
        some = any(channel.connection.readable() for channel in waiting)
        if not some and wait_ms:
            open_ones = [c.connection for c in waiting if c.connection.is_open]
            if open_ones:
                wait_readable(open_ones, wait_ms)
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

    def _pause_s(self, limit_s: float) -> float:
        """Seconds until something may be tried again, at most `limit_s`."""
        pause_s = self._core.pause_s(limit_s)
        return self._transactions.limited_pause_s(pause_s) if self._transactions else pause_s

    def _receive(self, channel: _Channel, request: _Request) -> None:
        try:
            response = channel.connection.receive(request.token)
        except ClientError as error:
            self._lose(channel, [], error)
            return
        channel.requests.popleft()
        self._core.take_answer(request.sent, response, channel.node.address)

    def _time_out(self, channel: _Channel) -> None:
        error = RequestTimedOut(
            f"no ProduceResponse within {self.config.request_timeout_ms} ms",
            host=channel.node.address,
        )
        self._lose(channel, [], error)

    def _lose(self, channel: _Channel, lost: Sent, error: ClientError) -> None:
        """The connection is of no use any more: no answer will come to what was sent on it, nor
        `lost`, which could not be written."""
        channel.connection.close()
        if self._channels.get(channel.node.node_id) is channel:
            del self._channels[channel.node.node_id]
        # Those still on the channel came before `lost` and are as lost as they are.
        lost = [entry for item in channel.requests for entry in item.sent] + lost
        channel.requests.clear()
        self._core.lose(lost, error)


def _awaits(channel: _Channel, queue: PartitionQueue) -> bool:
    return any(entry[0] is queue for item in channel.requests for entry in item.sent)
