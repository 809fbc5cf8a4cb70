"""The asyncio face of `protocol.transaction_manager`; the twin of `client.transactional`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from fencepost.client.aio.cluster import AsyncCluster
from fencepost.client.errors import ClientError, DeadlineExceeded
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.protocol.prepared import PreparedTxnState
from fencepost.client.protocol.transaction_errors import Reaction
from fencepost.client.protocol.transaction_manager import Ask, State, TransactionManager
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.client.transactional import FEATURE, offsets_of_group, pause_after


class AsyncTransactionDriver:
    """Carries a `TransactionManager`'s requests to coordinators, one at a time."""

    def __init__(self, cluster: AsyncCluster, transactional_id: str) -> None:
        self.manager = TransactionManager(
            transactional_id,
            cluster.config.transaction_timeout_ms,
            two_phase_commit=cluster.config.two_phase_commit,
        )
        self._cluster = cluster
        self._backoff = cluster.backoff()
        self._retry_at = 0.0
        self._last: ClientError | None = None
        self._one = asyncio.Lock()  # the sender's task and the application's calls take turns

    def require_open(self) -> None:
        """Raise unless there is a transaction to abort."""
        if not self.manager.is_open:
            self.manager.end(commit=False)

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset | int],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> None:
        """Make offsets part of the transaction."""
        self.manager.add_offsets(*offsets_of_group(offsets, group_metadata))
        await self.run("send_offsets_to_transaction")

    async def prepare(self) -> PreparedTxnState:
        """Every batch is decided: have the rest delivered, and prepare."""
        await self.run("prepare_transaction")
        return self.manager.prepare()

    async def end(self, *, commit: bool) -> None:
        """Commit or abort; every batch is decided."""
        async with self._one:  # a request of the sender's is answered first
            self.manager.end(commit=commit)
        await self.run("commit_transaction" if commit else "abort_transaction")

    async def run(self, what: str) -> None:
        """Send requests until there is none left. Raises TransactionError, DeadlineExceeded."""
        deadline = self._cluster.deadline()
        while await self.step():
            pause_s = self.retry_in_s()
            if pause_s * 1000 >= deadline.remaining_ms():
                raise DeadlineExceeded(
                    f"{what} did not succeed within {deadline.timeout_ms:.0f} ms", self._last
                )
            await asyncio.sleep(pause_s)
        self.manager.check()

    def retry_in_s(self) -> float:
        """Seconds until a request that was refused is sent again."""
        return max(0.0, self._retry_at - time.monotonic())

    async def step(self) -> bool:
        """As `TransactionDriver.step`."""
        manager = self.manager
        async with self._one:
            while time.monotonic() >= self._retry_at:
                manager.transaction_version = self._cluster.finalized_features.level(FEATURE)
                ask = manager.next_request()
                if ask is None:
                    return False
                pause_s = pause_after(await self._send(ask), self._backoff)
                if pause_s is None:
                    break
                self._retry_at = time.monotonic() + pause_s
            return manager.state is not State.FATAL_ERROR and manager.next_request() is not None

    async def _send(self, ask: Ask) -> Reaction:
        cluster = self._cluster
        try:
            node = await cluster.find_coordinator(ask.key, ask.coordinator)
            connection = await cluster.connection(node)
            version = connection.version_for(
                type(ask.message), lowest=ask.lowest, highest=ask.highest
            )
            response = await connection.request(ask.message, version)
        except ClientError as error:
            self._last = error
            cluster.note_failure(error)
            reaction = self.manager.on_failure(ask, error)
        else:  # the first connection told the level
            self.manager.transaction_version = cluster.finalized_features.level(FEATURE)
            reaction = self.manager.on_response(ask, response)
            self._last = None
        if reaction is Reaction.FIND_COORDINATOR:
            cluster.forget_coordinator(ask.key, ask.coordinator)
        return reaction
