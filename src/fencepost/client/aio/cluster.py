"""A cluster as asyncio clients see it; the twin of `client.cluster.Cluster`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from typing import Any, Self, TypeVar, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

from fencepost.client import asking
from fencepost.client.aio.connection import AsyncConnection
from fencepost.client.aio.driving import drive
from fencepost.client.asking import Ask, ErrorOf
from fencepost.client.cluster_view import GROUP_KEY, ClusterView
from fencepost.client.conversation import (
    Alone,
    Begin,
    Connect,
    Conversation,
    Exchange,
    ExchangeAll,
    FirstOf,
    Pause,
    Step,
    Tell,
    Where,
)
from fencepost.client.errors import ClientError
from fencepost.client.metadata import Node, TopicInfo
from fencepost.client.retry import Deadline
from fencepost.wire.message import Message, Request

R = TypeVar("R", bound=Message)
T = TypeVar("T")


class AsyncCluster(ClusterView[AsyncConnection]):
    """Connections and metadata of one cluster; an asynchronous context manager.

    Arguments and rules are those of `Cluster`. Opening is lazy: the first request connects.
    """

    def __init__(self, *arguments: Any, **properties: Any) -> None:
        super().__init__(*arguments, **properties)
        self._opening: WeakValueDictionary[Where, asyncio.Lock] = WeakValueDictionary()
        self._turns: WeakKeyDictionary[Any, asyncio.Lock] = WeakKeyDictionary()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; the next request opens them again."""
        self._close_connections()
        await asyncio.sleep(0)  # a turn for transports to end

    # -- carrying out conversations --------------------------------------------------------------

    async def run(self, conversation: Conversation[T]) -> T:
        """Carry out a conversation over this cluster's connections."""
        return await drive(conversation, self._take)

    async def _take(self, step: Step[Any]) -> Any:
        if isinstance(step, Exchange):
            return await self._exchange(step)
        if isinstance(step, Connect):
            return await self._connect(step.where)
        if isinstance(step, ExchangeAll):
            return await asyncio.gather(*map(self._exchange_or_error, step.exchanges))
        if isinstance(step, Begin):
            return _begin(step.exchange)
        if isinstance(step, FirstOf):
            return await _first_of(step.begun, step.wait_ms)
        if isinstance(step, Alone):
            async with self._turns.setdefault(step.owner, asyncio.Lock()):
                return await self.run(step.conversation)
        if isinstance(step, Pause):
            return await asyncio.sleep(step.pause_ms / 1000)
        assert isinstance(step, Tell), step
        told = step.function(step.argument)
        return await told if inspect.isawaitable(told) else told

    async def _connect(self, where: Where) -> AsyncConnection:
        async with self._opening.setdefault(where, asyncio.Lock()):
            known = self.open_connection(where)
            if known is not None:
                return known
            made = await AsyncConnection.open(self.config, where.host, where.port)
            return self.keep_connection(where, made)

    async def _exchange(self, asked: Exchange[R]) -> R:
        connection = cast("AsyncConnection", asked.connection)  # an AsyncCluster makes no others
        return await connection.request(
            asked.message, asked.version, highest=asked.highest, timeout_ms=asked.timeout_ms
        )

    async def _exchange_or_error(self, asked: Exchange[R]) -> R | ClientError:
        try:
            return await self._exchange(asked)
        except ClientError as error:
            return error

    # -- metadata and connections ----------------------------------------------------------------

    async def describe(
        self, topics: Iterable[str] | None = None, *, deadline: Deadline | None = None
    ) -> list[TopicInfo]:
        """Ask for `topics` (None: all there are) and return what came, error codes included."""
        return await self.run(asking.describe(self, topics, deadline=deadline))

    async def topic(self, name: str) -> TopicInfo:
        """A topic from the cache, asked for when missing or old. Raises UnknownTopic."""
        return await self.run(asking.topic(self, name))

    async def leader(self, topic: str, partition: int, deadline: Deadline) -> tuple[Node, int]:
        """See `asking.leader_once`; callers retry."""
        return await self.run(asking.leader_once(self, topic, partition, deadline))

    async def connection(self, node: Node) -> AsyncConnection:
        """An open connection to `node`, made if there is none."""
        return await self._connect(Where(node.host, node.port))

    async def any_connection(self) -> AsyncConnection:
        """Some open connection; see `asking.any_connection`."""
        return cast("AsyncConnection", await self.run(asking.any_connection(self)))

    # -- requests --------------------------------------------------------------------------------

    async def request_any(
        self,
        message: Request[R],
        error_of: ErrorOf | None = None,
        *,
        highest: int | None = None,
        deadline: Deadline | None = None,
    ) -> R:
        """Send `message` to whichever broker answers; see `asking.request_any`."""
        return await self.run(
            asking.request_any(self, message, error_of, highest=highest, deadline=deadline)
        )

    async def request_coordinator(
        self, key: str, message: Ask[R], error_of: ErrorOf | None = None, **how: Any
    ) -> R:
        """Send `message` to the coordinator of `key`; see `asking.request_coordinator`."""
        return await self.run(asking.request_coordinator(self, key, message, error_of, **how))

    async def find_coordinator(self, key: str, key_type: int = GROUP_KEY) -> Node:
        """The coordinator as known, or by asking once; the caller retries."""
        return await self.run(asking.coordinator_once(self, key, key_type))


def _begin(asked: Exchange[R]) -> asyncio.Future[R]:
    connection = cast("AsyncConnection", asked.connection)
    return connection.begin(
        asked.message, asked.version, highest=asked.highest, timeout_ms=asked.timeout_ms
    )


async def _first_of(begun: list[asyncio.Future[Any]], wait_ms: float) -> list[Any]:
    """Cancelling this cancels none of the requests."""
    await asyncio.wait(begun, timeout=wait_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
    return [_outcome(one) if one.done() else None for one in begun]


def _outcome(answered: asyncio.Future[Any]) -> Any:
    error = answered.exception()
    if error is not None and not isinstance(error, ClientError):
        raise error
    return error or answered.result()
