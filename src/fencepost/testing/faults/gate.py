"""A gate: the port where one node is reached, and the connections through it."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

from fencepost.testing.faults.relay import Relay
from fencepost.testing.ports import LOOPBACK

if TYPE_CHECKING:
    from fencepost.testing.faults.rules import Fault
    from fencepost.testing.faults.state import FaultState

BACKLOG: Final = 512
CONNECTIONS_MAX: Final = 4_096
"""Through one gate; more are refused."""


class Gate:
    """Listens at `port` of the loopback interface and passes on to `target`.

    Everything but the constructor and `port` belongs to the thread of the injector's event loop.
    """

    def __init__(
        self, state: FaultState, node: int | None, target: tuple[str, int], port: int = 0
    ) -> None:
        """`node` is the id of the node behind it, None as long as it is not known. OSError."""
        self.node = node
        self.target = target
        self.is_later = False
        """Whether it was made for a broker that was heard of while clients were served."""
        self.state = state
        self._relays: set[Relay] = set()
        self._server: asyncio.Server | None = None
        self._socket: socket.socket | None = socket.create_server((LOOPBACK, port), backlog=BACKLOG)
        self.port: int = self._socket.getsockname()[1]

    # -- what relays say -------------------------------------------------------------------

    def entered(self, relay: Relay) -> bool:
        """A client has come; whether it may stay."""
        if self._server is None or len(self._relays) >= CONNECTIONS_MAX:
            return False
        self._relays.add(relay)
        return True

    def left(self, relay: Relay) -> None:
        """A connection has ended."""
        self._relays.discard(relay)

    # -- what the injector says ------------------------------------------------------------

    async def open(self) -> None:
        """Accept connections, at the same port as before. OSError if it is taken."""
        if self._server is not None:
            return
        loop = asyncio.get_running_loop()
        sock = self._socket or socket.create_server((LOOPBACK, self.port), backlog=BACKLOG)
        self._socket = None
        self._server = await loop.create_server(lambda: Relay(self, loop).client, sock=sock)

    def refuse(self) -> None:
        """Refuse connections, as a host does where nobody listens; those that are open stay."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """Refuse connections and end those that there are."""
        self.refuse()
        for relay in list(self._relays):
            relay.abort()

    def lifted(self, fault: Fault) -> None:
        """A fault is over."""
        for relay in list(self._relays):
            relay.lifted(fault)

    def links_changed(self) -> None:
        """A link was cut or healed."""
        for relay in list(self._relays):
            relay.links_changed()
