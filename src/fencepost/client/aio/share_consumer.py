"""`AsyncShareConsumer`: records of a share group on an event loop.

    async with AsyncShareConsumer(cluster, ["jobs"]) as consumer:  # group.id is in its config
        for record in await consumer.poll():
            ...

The methods are those of `ShareConsumer`, over the same `ShareConsumerCore`. One task sends
heartbeats, over a connection of its own. A consumer whose application does not poll for
`max.poll.interval.ms` leaves the group and joins again at the next call (KIP-62).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Self

from fencepost.client.aio.cluster import AsyncCluster
from fencepost.client.errors import BrokerError, ClientError
from fencepost.client.retry import Deadline
from fencepost.client.share_core import ShareConsumerCore
from fencepost.client.share_records import ShareRecord
from fencepost.client.share_sessions import Results

log = logging.getLogger("fencepost.client")


class AsyncShareConsumer(ShareConsumerCore):
    """See the module, and `ShareConsumer`; an asynchronous context manager."""

    waits_apart = True

    def __init__(self, cluster: AsyncCluster, topics: Iterable[str] = ()) -> None:
        super().__init__(cluster)
        self.cluster = cluster
        self._turns = asyncio.Lock()  # of calls that send something to leaders
        self._polled_at = time.monotonic()
        self._failure: ClientError | None = None
        self._heart: asyncio.Task[None] | None = None
        self._joined = asyncio.Event()
        self._commits: set[asyncio.Task[Results]] = set()
        self.subscribe(topics)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        await self._close(accepts=kind is None)

    async def start(self) -> None:
        """Begin; heartbeats leave once the first poll has joined the group."""
        if self._heart is None:
            self._polled_at = time.monotonic()
            self._heart = asyncio.create_task(self._beat(), name="fencepost share consumer")

    async def poll(self, timeout_ms: float | None = None) -> list[ShareRecord]:
        """Records, if any can be acquired within `timeout_ms`; see `ShareConsumer.poll`. Raises
        what heartbeats failed with; ClientError when not started."""
        at_once_ms = self.config.fetch_max_wait_ms
        deadline = Deadline(at_once_ms if timeout_ms is None else timeout_ms)
        while True:
            await self._take_part()
            async with self._turns:
                wait_ms = min(deadline.remaining_ms(), at_once_ms)
                found = await self.cluster.run(self.polling(wait_ms))
            if found or deadline.passed:
                return found

    async def commit_sync(self) -> Results:
        """Send all acknowledgements; see `ShareConsumer.commit_sync`."""
        async with self._turns:
            return await self.cluster.run(self.committing())

    def commit_async(self) -> None:
        """The same in a task of its own, in implicit mode of what was handed out before this call;
        the callback is told how it went."""
        self._settle_delivered()
        task = asyncio.create_task(self._committing(), name="fencepost share commit")
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)

    async def _committing(self) -> Results:
        async with self._turns:
            return await self.cluster.run(self.sending())

    async def unsubscribe(self) -> None:
        """Send all acknowledgements, release what is not acknowledged, and leave the group."""
        self.subscribe(())
        async with self._turns:
            await self.cluster.run(self.closing(accepts=True))

    async def close(self) -> None:
        """Send all acknowledgements, in implicit mode of everything handed out; release the rest,
        and leave the group. The cluster stays."""
        await self._close(accepts=True)

    async def _close(self, *, accepts: bool) -> None:
        heart, self._heart = self._heart, None
        if heart is None:
            return
        heart.cancel()
        await asyncio.gather(heart, *self._commits, return_exceptions=True)
        async with self._turns:
            await self.cluster.run(self.closing(accepts=accepts))

    # -- the group -------------------------------------------------------------------------------

    async def _take_part(self) -> None:
        if self._heart is None:
            raise ClientError("the consumer is not started; use `async with`, or await start()")
        if self._heart.done():
            self._heart.result()
        self._polled_at = time.monotonic()
        if self._failure is not None:
            error, self._failure = self._failure, None
            raise error
        if not self._member.is_member:
            await self.cluster.run(self.beating())
            if self._member.is_member:
                self._joined.set()

    async def _beat(self) -> None:
        """Send heartbeats while the consumer is a member of its group."""
        while True:
            await self._joined.wait()
            if not self._member.is_member:
                self._joined.clear()
                continue
            await asyncio.sleep(max(self.heartbeat_wait_ms, 1) / 1000)
            try:
                await self._beat_once()
            except BrokerError as error:
                self._failure = error
            except ClientError as error:  # no coordinator could be reached
                log.warning("share group %s: %s", self.group, error)
            else:
                continue
            await asyncio.sleep(self.config.retry_backoff_ms / 1000)

    async def _beat_once(self) -> None:
        idle_ms = (time.monotonic() - self._polled_at) * 1000
        if idle_ms <= self.config.max_poll_interval_ms:
            await self.cluster.run(self.beating())
            return
        log.warning(
            "share group %s: the application has not polled for %d ms, more than"
            " max.poll.interval.ms: leaving",
            self.group,
            idle_ms,
        )
        await self.cluster.run(self.leaving())
