"""`AsyncProducer`: records and batches, idempotent or transactional, on an event loop.

    async with AsyncProducer(cluster) as producer:
        offset = await producer.send_and_wait("orders", b"value", key=b"key")

    async with AsyncProducer(transactional_cluster) as producer:   # transactional.id is set
        async with producer.transaction():
            await producer.send("orders", b"value")
            await producer.send_offsets_to_transaction(offsets, "billing")

Guarantees and settings are those of `client.producer.Producer`, over the same `ProduceCore`,
`RecordAccumulator` and `TransactionManager`. One task sends; it ends with `stop`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Self

from fencepost.batch.records import Header
from fencepost.client.accumulator import OpenBatch, RecordAccumulator
from fencepost.client.aio.cluster import AsyncCluster
from fencepost.client.aio.connection import AsyncConnection
from fencepost.client.errors import ClientError, DeadlineExceeded, UnknownTopic
from fencepost.client.metadata import CommittedOffset, Node, TopicPartition
from fencepost.client.produce_core import INIT_PRODUCER_ID_HIGHEST, ProduceCore, Sent
from fencepost.client.produce_queue import Identity, PartitionQueue, QueuedBatch
from fencepost.client.protocol.prepared import PreparedTxnState
from fencepost.client.protocol.transaction_manager import State
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.client.retry import Deadline
from fencepost.client.transactional import TransactionDriver, aborted_by_user
from fencepost.wire.api.produce import ProduceRequest

IDLE_WAIT_S = 0.05
"""How long the sender waits at most before it looks at queues again."""


class AsyncProducer:
    """See the module; an asynchronous context manager (`start`, and `stop` at its end)."""

    def __init__(self, cluster: AsyncCluster) -> None:
        cluster.config.check()
        self.cluster = cluster
        self.config = cluster.config
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
        self._accumulator = RecordAccumulator(self.config)
        self._in_flight: dict[int, list[Sent]] = {}
        self._answers: set[asyncio.Task[None]] = set()
        # Of the records of each batch that is not decided, in their order.
        self._waiting: dict[OpenBatch, list[asyncio.Future[int]]] = {}
        self._moved = asyncio.Event()  # something is to be sent
        self._decided = asyncio.Event()  # something was acknowledged or failed
        self._sender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        await self.stop(flush=kind is None)

    async def start(self) -> None:
        """Begin to send; with `transactional.id` also `init_transactions`."""
        if self._sender is None:
            self._sender = asyncio.create_task(self._run(), name="fencepost producer")
        if self._transactions and self._transactions.manager.state is State.UNINITIALIZED:
            try:
                await self.init_transactions()
            except BaseException:
                await self.stop(flush=False)
                raise

    async def stop(self, *, flush: bool = True) -> None:
        """Deliver what was sent, unless `flush` is False, and end the sender. The cluster stays."""
        try:
            if flush and self._sender is not None:
                await self.flush()
        finally:
            tasks = [task for task in (self._sender, *self._answers) if task is not None]
            self._sender = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._settle()
            for futures in self._waiting.values():
                for future in futures:
                    future.cancel()

    # -- records ---------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Iterable[Header] = (),
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[int]:
        """Add a record; the future has its offset, or raises what delivery failed with.

        Waits while more than `buffer.memory` is queued. Raises as `Producer.send`.
        """
        self._require_started()
        if self._transactions is not None:
            self._transactions.manager.require_transaction()
        info = self.cluster.fresh_topic(topic) or await self.cluster.topic(topic)
        batch, index, closed = self._accumulator.add(
            topic, len(info.partitions), value, key, partition, headers, timestamp_ms
        )
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if index == 0:
            self._waiting[batch] = [future]
            self._moved.set()  # it may be the first to linger
        else:
            self._waiting[batch].append(future)
        if closed:
            await self._queue(closed)
            self._moved.set()
            await asyncio.sleep(0)  # the sender's turn, while the next batch gathers
        return future

    async def send_and_wait(self, topic: str, value: bytes | None, **how: Any) -> int:
        """`send`, and wait for the offset."""
        return await (await self.send(topic, value, **how))

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Return when every record is decided; raise the first failure since the last flush."""
        self._require_started()
        deadline = Deadline(timeout_ms) if timeout_ms is not None else None
        await self._queue(self._accumulator.close_all())
        while not self._core.is_idle:
            if deadline is not None and deadline.passed:
                raise DeadlineExceeded(
                    f"records were still undelivered after {timeout_ms:.0f} ms",
                    self._core.first_failure,
                )
            await self._wait_for_decision(deadline)
        self._settle()
        if self._core.first_failure is not None:
            error, self._core.first_failure = self._core.first_failure, None
            raise error

    async def _wait_for_decision(self, deadline: Deadline | None) -> None:
        assert self._sender is not None
        if self._sender.done():
            self._sender.result()
        limit_s = deadline.remaining_ms() / 1000 if deadline is not None else 1.0
        self._decided.clear()
        self._moved.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._decided.wait()

    def _require_started(self) -> None:
        if self._sender is None:
            raise ClientError("the producer is not started; use `async with`, or await start()")

    async def _queue(self, batches: Sequence[OpenBatch], *, waits: bool = True) -> None:
        """Queue batches; with `waits` not before there is room for them, unless the caller is
        cancelled: batches hold the records of other callers, too."""
        cancelled: asyncio.CancelledError | None = None
        deadline = Deadline(self.config.delivery_timeout_ms)
        for number, open_batch in enumerate(batches):
            where = open_batch.partition
            try:
                built = open_batch.build()
                batch = self._core.batch(where.topic, where.partition, built, deadline)
                while waits and not self._core.has_room(len(batch.data)):
                    if deadline.passed:
                        raise DeadlineExceeded("no room was made", self._core.first_failure)
                    try:
                        await self._wait_for_decision(deadline)
                    except asyncio.CancelledError as error:
                        waits, cancelled = False, error
                open_batch.fate = self._core.add(batch)
            except ClientError as error:
                for lost in batches[number:]:
                    lost.give_up(error)
                self._settle()
                raise
        if cancelled is not None:
            raise cancelled

    def _settle(self) -> None:
        """Tell who waits for records that are decided."""
        decided = [batch for batch in self._waiting if batch.fate is not None and batch.fate.done]
        for batch in decided:
            _settle_batch(batch, self._waiting.pop(batch))
        self._decided.set()

    # -- transactions ----------------------------------------------------------------------------

    async def init_transactions(self, *, keep_prepared_txn: bool = False) -> None:
        """As `Producer.init_transactions`; `start` does it, unless it is done before."""
        await self.cluster.run(self._driver().initialize(keep_prepared=keep_prepared_txn))

    async def begin_transaction(self) -> None:
        """What is sent from now on is part of a transaction."""
        self._driver().begin(self._core)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset | int],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit a group's offsets with the transaction; see `Producer`."""
        await self.cluster.run(self._driver().send_offsets(offsets, group_metadata))

    async def prepare_transaction(self) -> PreparedTxnState:
        """Deliver everything and prepare; see `Producer.prepare_transaction`."""
        return await self.cluster.run(self._driver().prepare(self.flush))

    async def complete_transaction(self, state: PreparedTxnState) -> None:
        """Commit what is prepared as `state`, abort another; see `Producer`."""
        if self._driver().manager.is_prepared_as(state):
            await self.commit_transaction()
        else:
            await self.abort_transaction()

    async def commit_transaction(self) -> None:
        """Deliver everything and commit; errors as `Producer.commit_transaction`."""
        await self.cluster.run(self._driver().commit(self.flush))

    async def abort_transaction(self) -> None:
        """Give up what was sent since the transaction began."""
        driver = self._driver()
        driver.require_open()
        for batch in self._accumulator.close_all():
            batch.give_up(aborted_by_user())
        self._settle()
        await self.cluster.run(driver.abort(self._core, self._wait_for_answers))

    async def _wait_for_answers(self, _: None) -> None:
        self._settle()
        if not self._core.is_idle:
            await self._wait_for_decision(None)
            self._settle()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A transaction around a block, as `Producer.transaction`."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            if self._driver().manager.is_open:
                with contextlib.suppress(ClientError):  # the coordinator has aborted it, or will
                    await self.abort_transaction()
            raise

    def _driver(self) -> TransactionDriver:
        if self._transactions is None:
            raise ClientError("transactions need transactional.id in the cluster's config")
        return self._transactions

    # -- sending ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Send what may be sent, for as long as the producer is started."""
        while True:
            self._moved.clear()
            with contextlib.suppress(ClientError):  # its records have it
                # Only this task makes room; were it to wait for some, it would do so for ever.
                await self._queue(self._accumulator.lingering(), waits=False)
            self._core.expire()
            await self._dispatch()
            self._settle()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s()):
                    await self._moved.wait()

    def _pause_s(self) -> float | None:
        """Seconds after which something is to be looked at again; None when nothing waits."""
        due_ms = self._accumulator.next_due_ms()
        lingers_s = None if due_ms is None else due_ms / 1000
        if self._core.is_idle:
            return lingers_s
        pause_s = self._core.pause_s(IDLE_WAIT_S)
        if self._transactions is not None:
            pause_s = self._transactions.limited_pause_s(pause_s)
        # Never 0: batches behind a full window wait for an answer, which wakes the sender.
        return max(0.001, pause_s if lingers_s is None else min(pause_s, lingers_s))

    async def _dispatch(self) -> None:
        if self._transactions is not None:
            ended_by = await self.cluster.run(self._transactions.keep_up())
            if ended_by is not None:
                self._core.abandon(ended_by)
        while True:
            grouped: dict[int, tuple[Node, AsyncConnection, Sent, int]] = {}
            for queue, batch in list(self._core.sendable()):
                await self._add_sendable(queue, batch, grouped)
            if not grouped:
                return
            for node, connection, sent, _ in grouped.values():
                # While connections were made, transactions may have ended.
                still = [one for one in sent if one[0].sendable(time.monotonic()) is one[1]]
                if still:
                    self._send(node, connection, still)

    async def _add_sendable(
        self,
        queue: PartitionQueue,
        batch: QueuedBatch,
        grouped: dict[int, tuple[Node, AsyncConnection, Sent, int]],
    ) -> None:
        where = queue.partition
        try:
            node, _ = await self.cluster.leader(where.topic, where.partition, batch.deadline)
            if queue.identity is None:
                queue.identity = await self._take_identity(batch.deadline)
            if not self._may_send(queue, node):
                return
            connection = await self.cluster.connection(node)
        except ClientError as error:
            if batch.delivery.done:
                return
            queue.unknown_topic_attempts += isinstance(error, UnknownTopic)
            gives_up = queue.unknown_topic_attempts >= self.cluster.unknown_topic_attempts
            self._core.postpone(queue, batch, error, gives_up=gives_up)
            return
        queue.unknown_topic_attempts = 0
        _, _, sent, size = grouped.get(node.node_id, (node, connection, [], 0))
        if sent and size + len(batch.data) > self.config.max_request_size:
            return
        sent.append((queue, batch))
        grouped[node.node_id] = (node, connection, sent, size + len(batch.data))

    def _may_send(self, queue: PartitionQueue, node: Node) -> bool:
        """Not while the broker has enough to do, nor while answers from the leader before this one
        are outstanding."""
        for node_id, requests in self._in_flight.items():
            if node_id != node.node_id and any(
                one[0] is queue for sent in requests for one in sent
            ):
                return False
        return len(self._in_flight.get(node.node_id, ())) < self.config.max_in_flight

    async def _take_identity(self, deadline: Deadline) -> Identity:
        core = self._core
        if core.needs_identity:
            response: Any = await self.cluster.request_any(
                core.identity_request(),
                lambda r: r.error_code,
                highest=INIT_PRODUCER_ID_HIGHEST,
                deadline=deadline,
            )
            core.identity = Identity(response.producer_id, response.producer_epoch)
        assert core.identity is not None
        return core.identity

    def _send(self, node: Node, connection: AsyncConnection, sent: Sent) -> None:
        message, lowest, highest = self._core.message(sent)
        try:
            version = connection.version_for(ProduceRequest, lowest=lowest, highest=highest)
            future = connection.send(message, version)
        except ClientError as error:
            self._core.lose(sent, error)
            return
        if self.config.acks == 0:
            self._core.unanswered(sent)
            return
        self._in_flight.setdefault(node.node_id, []).append(sent)
        task = asyncio.create_task(self._receive(node, connection, sent, future))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _receive(
        self,
        node: Node,
        connection: AsyncConnection,
        sent: Sent,
        future: asyncio.Future[Any],
    ) -> None:
        try:
            response = await connection.answer_to(future, self.config.request_timeout_ms)
        except ClientError as error:
            self._in_flight[node.node_id].remove(sent)
            self._core.lose(sent, error)
        else:
            self._in_flight[node.node_id].remove(sent)
            self._core.take_answer(sent, response, node.address)
        self._settle()
        self._moved.set()


def _settle_batch(batch: OpenBatch, futures: list[asyncio.Future[int]]) -> None:
    fate = batch.fate
    assert fate is not None
    for index, future in enumerate(futures):
        if future.done():
            continue  # cancelled by who had it
        try:
            future.set_result(fate.offset_of(index))
        except ClientError as error:
            future.set_exception(error)
            future.exception()  # `flush` tells of it, too
