"""Loopback ports for servers that are started later, and again on the same port.

Outgoing connections take their ports from a range of the system's, the ephemeral one. A server that
lives there and is stopped for a moment may find its port taken when it comes back: by anybody's
connection, and not least by those that its own peers and clients try to make to it meanwhile, which
now and then get the very port they want to reach and are connected to themselves. So ports are
looked for below that range.
"""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
LOWEST = 10_000
EPHEMERAL_FROM = 32_768
"""Where the range begins if the system does not say; on most it is here or above."""
ENOUGH = 1_000
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DICE = random.SystemRandom()
_given: set[int] = set()
"""What this process was told already: a server may be about to listen there."""


def free_ports(count: int) -> list[int]:
    """So many different ports that no socket is bound to now, and that were not given out before.

    They are drawn, so that processes that ask at the same time get different ones. OSError if there
    are too few.
    """
    bound: list[socket.socket] = []
    try:
        for port in _candidates():
            if len(bound) == count:
                break
            with contextlib.suppress(OSError):
                bound.append(socket.create_server((LOOPBACK, port)))
        if len(bound) < count:
            raise OSError(f"no {count} free ports on {LOOPBACK}")
        found = [sock.getsockname()[1] for sock in bound]
        _given.update(found)
        return found
    finally:
        for sock in bound:
            sock.close()


def _candidates() -> list[int]:
    """Ports in the order in which to try them; 0 is one of the system's choice."""
    below = range(LOWEST, _ephemeral_from())
    ports = [port for port in below if port not in _given]
    if len(ports) < ENOUGH <= len(below):  # long ago
        _given.clear()
        ports = list(below)
    if len(ports) < ENOUGH:
        return [0] * ENOUGH
    return _DICE.sample(ports, ENOUGH)


def _ephemeral_from() -> int:
    try:
        return int(_RANGE_FILE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return EPHEMERAL_FROM
