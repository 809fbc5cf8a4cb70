"""Looks whether listeners refuse connections: the port of `runtime.broker_probes` over asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from typing import Final

Address = tuple[str, int]

TIMEOUT_S: Final = 1.0
"""For all addresses together; a listener that takes longer has not refused."""
RESOLVED_MAX: Final = 8
"""IP addresses of one host that are tried."""


class ListenerProbe:
    """Connects and disconnects; nothing is sent."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, addresses: Sequence[Address], on_result: Callable[[bool], None]) -> None:
        """Try all addresses; `on_result(True)` if there are some and every one refuses."""
        task = self._loop.create_task(self._run(addresses, on_result))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Stop probing; `on_result` is not called any more."""
        for task in self._tasks:
            task.cancel()

    async def _run(self, addresses: Sequence[Address], on_result: Callable[[bool], None]) -> None:
        refused = False
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(TIMEOUT_S):
                answers = await asyncio.gather(*[self._refuses(*one) for one in addresses])
            refused = bool(answers) and all(answers)
        on_result(refused)

    async def _refuses(self, host: str, port: int) -> bool:
        """Whether nothing listens there, at any IP address of the host. OSError."""
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, address in found[:RESOLVED_MAX]:
            with socket.socket(family, kind, protocol) as connecting:
                connecting.setblocking(False)
                try:
                    await self._loop.sock_connect(connecting, address)
                except ConnectionRefusedError:
                    continue
                return False
        return 0 < len(found) <= RESOLVED_MAX
