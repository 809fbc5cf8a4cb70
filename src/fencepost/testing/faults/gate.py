"""A gate: the port where one node is reached, and the connections through it."""

from __future__ import annotations

import asyncio
import contextlib
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
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = False
        self._socket = socket.create_server((LOOPBACK, port), backlog=BACKLOG)
        self.port: int = self._socket.getsockname()[1]

    # -- what relays say -------------------------------------------------------------------

    def entered(self, relay: Relay) -> bool:
        """A client has come; whether it may stay."""
        if not self._is_open or len(self._relays) >= CONNECTIONS_MAX:
            return False
        self._relays.add(relay)
        return True

    def left(self, relay: Relay) -> None:
        """A connection has ended."""
        self._relays.discard(relay)

    # -- what the injector says ------------------------------------------------------------

    async def open(self) -> None:
        """Accept connections, at the same port as before. OSError if it is taken."""
        if self._is_open:
            return
        if self._socket.fileno() < 0:
            self._socket = socket.create_server((LOOPBACK, self.port), backlog=BACKLOG)
        self._socket.setblocking(False)
        # Not `create_server`: one that is closed in the moment that it accepts a connection leaves
        # the connection open (Python 3.11 to 3.13).
        asyncio.get_running_loop().add_reader(self._socket, self._accept)
        self._is_open = True

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):  # there are no more
            while True:
                task = loop.create_task(self._serve(self._socket.accept()[0]))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: Relay(self, loop).client, connection)
        except (OSError, asyncio.CancelledError):
            connection.close()

    def refuse(self) -> None:
        """Refuse connections, as a port without a listener does; those that are open stay."""
        if self._is_open:
            asyncio.get_running_loop().remove_reader(self._socket)
        self._is_open = False
        self._socket.close()

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
