"""What a connection needs of the listener that has accepted it; `listener.Listener` is that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.broker.net.client_quotas import QuotaGate
from fencepost.broker.net.disconnect_log import DisconnectLog
from fencepost.broker.net.memory_budget import MemoryBudget
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import Routes
from fencepost.broker.net.turn import Turn
from fencepost.runtime.cooperative import Lane

if TYPE_CHECKING:
    from fencepost.broker.net.logins import Logins


class Host(Protocol):
    """What connections share."""

    loop: asyncio.AbstractEventLoop
    routes: Routes
    scratch: memoryview
    """What arrives on any connection is received here."""
    work: Lane
    broker_work: Lane
    """For connections of brokers, whose requests need not wait for all that clients want."""
    memory_budget: MemoryBudget
    turn: Turn
    disconnect_log: DisconnectLog
    quotas: QuotaGate
    new_context: Callable[..., PendingRequest]
    """Makes the context of a request."""
    context_again: Callable[..., PendingRequest]
    """The same for a request that was counted already."""
    before_others: Callable[[], None]
    """Called before a request is handled whose route is not `is_collected`: what was collected
    takes effect before what comes behind it."""
    after_read: Callable[[int], None]
    """Called when what has arrived on a connection, given by its `id`, has been handled."""

    @property
    def logins(self) -> Logins:
        """What the logins of all connections have in common."""
        ...

    def connected(self, connection: Any) -> bool:
        """Whether the connection may stay."""
        ...

    def disconnected(self, connection: Any) -> None:
        """A connection that was to stay is gone."""
        ...

    def flush_soon(self, connection: Any) -> None:
        """Have the connection write its output at the end of this turn of the loop."""
        ...
