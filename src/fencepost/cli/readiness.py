"""Waiting until a descriptor, whatever its number, can be read from or written to."""

from __future__ import annotations

import select
from typing import Final

READABLE: Final = select.POLLIN
WRITABLE: Final = select.POLLOUT


def wait_until(descriptor: int, event: int, timeout_s: float | None = None) -> bool:
    """Whether READABLE or WRITABLE came true within so many seconds (None: wait for it).

    True as well if the next call would fail instead of wait. OSError.
    """
    poll = select.poll()  # `select` knows no descriptors from 1024 on
    poll.register(descriptor, event)
    return bool(poll.poll(None if timeout_s is None else max(timeout_s, 0.0) * 1000))
