"""A port without a listener, which no other process can take meanwhile."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def refusing_port() -> Iterator[socket.socket]:
    """A loopback socket that is bound and does not listen: who connects is refused.

    A port that was free a moment ago may be anybody's now. This one is held; `listen` opens it.
    """
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held


def address_of(held: socket.socket) -> str:
    """HOST:PORT."""
    host, port = held.getsockname()
    return f"{host}:{port}"
