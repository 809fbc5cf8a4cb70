"""What a connection needs of whoever has accepted it; `listener.Listener` is that."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from fencepost.broker.net.disconnect_log import DisconnectLog
from fencepost.broker.net.memory_budget import MemoryBudget
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import Routes
from fencepost.broker.net.turn import Turn
from fencepost.runtime.cooperative import Lane


class ProduceRuns(Protocol):
    """See `fencepost.broker.apis.produce_runs`."""

    take_answers: Callable[[deque[Any], int], tuple[bytes, int, list[Any]]]
    """Takes answers that are known from the front of a queue, as long as there is room for so many
    bytes: them, the bytes of the frames of their requests, and those whose times are taken."""

    def take(
        self,
        connection: Any,
        waiting: deque[Any],
        frames: memoryview,
        start: int,
        end: int,
        head: bytes,
        requests_max: int,
    ) -> int:
        """Take usual requests from frames[start:end] to the queue; where they end."""
        ...

    @property
    def latest_bytes(self) -> int:
        """The size of the frames that were taken last."""
        ...

    def sent(self, requests: list[Any], now_s: float) -> None:
        """The answers to requests leave whose times are taken."""
        ...


class Host(Protocol):
    """What connections share."""

    loop: asyncio.AbstractEventLoop
    routes: Routes
    max_frame_bytes: int
    scratch: memoryview
    """What is received stands here first, of all connections."""
    work: Lane
    broker_work: Lane
    """For connections of brokers, whose requests need not wait for all that clients want."""
    memory_budget: MemoryBudget
    turn: Turn
    disconnect_log: DisconnectLog
    new_context: Callable[..., PendingRequest]
    """Makes what stands for a request until it is answered."""
    context_again: Callable[..., PendingRequest]
    """The same for a request that was counted already."""
    produce_runs: ProduceRuns | None
    """Takes usual Produce requests, if anybody does."""
    before_others: Callable[[], None]
    """Called before a request is handled that is not Produce: what producers have sent is
    collected, and takes effect before whatever comes behind it."""
    after_read: Callable[[int], None]
    """Called when what has arrived on a connection, given by its `id`, has been handled."""

    def connected(self, connection: Any) -> bool:
        """Whether the connection may stay."""
        ...

    def disconnected(self, connection: Any) -> None:
        """A connection that was to stay is gone."""
        ...

    def flush_soon(self, connection: Any) -> None:
        """Have the connection write its output at the end of this turn of the loop."""
        ...
