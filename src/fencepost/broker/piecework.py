"""Handlers that work in pieces, so that a long request does not keep everybody waiting.

A handler that may take long for a request that lists much is written as a generator function: it
yields between two pieces of work, and returns the response (or None, and answers later). The pieces
of one turn of the event loop take `TURN_S` and a piece; then the others come first. The client's
next request waits until this one is done with, as it would if the work were done at once.

Nothing is promised about what happens between two pieces: topics may be deleted, offsets move.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from time import perf_counter
from typing import Final

from fencepost.broker.registry import RequestContext
from fencepost.wire.message import Message

log = logging.getLogger(__name__)

TURN_S: Final = 0.005
"""How long one client's requests are worked on before the others come first."""


class Piecework:
    """One handler at work."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        context: RequestContext,
        pieces: Generator[None, None, Message | None],
        on_done: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._context = context
        self._pieces = pieces
        self._on_done = on_done

    def go_on(self) -> bool:
        """Work for a turn; whether it is done. If not, this goes on by itself, then `on_done`."""
        context = self._context
        turn_ends = perf_counter() + TURN_S
        try:
            while perf_counter() < turn_ends:
                next(self._pieces)
        except StopIteration as done:
            if done.value is not None:
                context.reply(done.value)
            return True
        except Exception:
            log.exception("%s v%d failed", context.route.name, context.api_version)
            context.fail()
            return True
        self._loop.call_soon(self._next_turn)
        return False

    def _next_turn(self) -> None:
        if self._context.disconnected:
            self._pieces.close()
        elif self.go_on():
            self._on_done()
