"""TLS handshakes in progress: how many, for how long, and how much of a turn they take.

A handshake costs a server a fifth of a millisecond with a P-256 key, and five times that with an
RSA key, before the client has shown who it is. So bytes of handshakes wait in a queue, which is
worked on for `HANDSHAKES_S` at a time; what clients with a session want comes between. An
unfinished handshake ends after `HANDSHAKE_TIMEOUT_S`. When `HANDSHAKES_MAX` are unfinished the
oldest one ends: a client that takes its time makes room for those that do not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter
from typing import Final, Protocol

HANDSHAKES_MAX: Final = 512
HANDSHAKE_TIMEOUT_S: Final = 10.0
HANDSHAKES_S: Final = 0.005


class Handshake(Protocol):
    """One that is in progress."""

    def shake_hands(self) -> None:
        """Take what has arrived."""
        ...

    def give_up(self, reason: str) -> None:
        """Disconnect the client."""
        ...


class Handshakes:
    """Those of all listeners of one `Listener`; see the module."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.most = HANDSHAKES_MAX
        self.timeout_s = HANDSHAKE_TIMEOUT_S
        self._timers: dict[Handshake, asyncio.TimerHandle] = {}
        self._begun: dict[Handshake, None] = {}
        self._arrived: deque[Handshake] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._begun)

    def connected(self, one: Handshake) -> None:
        """A client is there, which has a time to be done."""
        self._timers[one] = self._loop.call_later(self.timeout_s, self._time_out, one)

    def began(self, one: Handshake) -> None:
        """Its first bytes have arrived."""
        self._begun[one] = None
        if len(self._begun) > self.most:
            oldest = next(iter(self._begun))
            oldest.give_up(f"its TLS handshake is the oldest of more than {self.most}")

    def ended(self, one: Handshake) -> None:
        """It has succeeded or failed, or the client has left."""
        timer = self._timers.pop(one, None)
        if timer is not None:
            timer.cancel()
        self._begun.pop(one, None)

    def later(self, one: Handshake) -> None:
        """Have it take what has arrived when it is its turn."""
        self._arrived.append(one)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_scheduled = False
        ends = perf_counter() + HANDSHAKES_S
        while self._arrived:
            self._arrived.popleft().shake_hands()
            if perf_counter() > ends:
                break
        if self._arrived:
            self._schedule()

    def _time_out(self, one: Handshake) -> None:
        one.give_up(f"no TLS handshake within {self.timeout_s:g} s")
