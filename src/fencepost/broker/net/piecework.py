"""Handlers that work in pieces, so that a long request does not keep everybody waiting.

A handler that may take long for a request that lists much is written as a generator function: it
yields between two pieces of work, and returns the response (or None, and answers later). It yields
a future when it has to wait for a thread.

Theory of operation
-------------------
What is small is done when `begin` returns: every handler works for `FIRST_TURN_S` on the spot. What
is left waits in one queue of the listener. One turn of the event loop takes `TURN_S` and a piece,
however many handlers are at work: whoever is first works, goes to the end of the queue, and then
all other connections and timers come first. So a hundred clients with long requests delay everybody
else as much as one does, and share what is left among them.

Decoding a large request is one piece, which cannot be divided; while handlers are at work, it waits
in the same queue (`later`).

The client's next request waits until this one is done with, as it would if the work were done at
once: a client with many long requests waits for its own.

Nothing is promised about what happens between two pieces: topics may be deleted, offsets move.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import perf_counter
from typing import Any, Final

from fencepost.broker.net.registry import Pieces
from fencepost.broker.net.request_context import RequestContext

log = logging.getLogger(__name__)

FIRST_TURN_S: Final = 0.001
"""How long a request is worked on at once, whoever else waits."""
TURN_S: Final = 0.005
"""How long long requests are worked on before the others come first."""


class _Work:
    """One handler at work."""

    __slots__ = ("context", "on_done", "pieces")

    def __init__(
        self, context: RequestContext, pieces: Pieces, on_done: Callable[[], None]
    ) -> None:
        self.context = context
        self.pieces = pieces
        self.on_done = on_done


class Piecework:
    """What is at work: the handlers of one listener, or the shards that load."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready: deque[_Work | Callable[[], None]] = deque()
        self._is_scheduled = False

    def begin(self, context: RequestContext, pieces: Pieces, on_done: Callable[[], None]) -> bool:
        """Work for a moment; whether it is done. If not, it goes on by itself, then `on_done`."""
        return self._advance(_Work(context, pieces, on_done), perf_counter() + FIRST_TURN_S)

    @property
    def is_busy(self) -> bool:
        """Whether handlers wait for their turn."""
        return bool(self._ready)

    def later(self, callback: Callable[[], None], after: Future[Any] | None = None) -> None:
        """Call back when it is the turn of what comes now, or when `after` is done."""
        if after is None:
            self._put(callback)
        else:
            after.add_done_callback(lambda _: self._wake(callback))

    def _turn(self) -> None:
        """Work on the first in the queue, and on those behind it while there is time."""
        self._is_scheduled = False
        turn_ends = perf_counter() + TURN_S
        try:
            while self._ready:
                work = self._ready.popleft()
                if not isinstance(work, _Work):
                    work()
                elif work.context.disconnected:
                    work.pieces.close()
                elif self._advance(work, turn_ends):
                    work.on_done()
                if perf_counter() >= turn_ends:
                    break
        finally:  # what one fails with is not the trouble of those behind it
            self._schedule()

    def _advance(self, work: _Work, turn_ends: float) -> bool:
        """Work until the time is up or a thread has to be waited for; whether it is done."""
        context = work.context
        try:
            while True:  # at least one piece: the first may have to keep what the request points to
                future = next(work.pieces)
                if future is not None and not future.done():
                    future.add_done_callback(lambda _: self._wake(work))
                    return False
                if perf_counter() >= turn_ends:
                    break
        except StopIteration as done:
            if done.value is not None:
                context.reply(done.value)
            return True
        except Exception:
            log.exception("%s v%d failed", context.route.name, context.api_version)
            context.fail()
            return True
        self._put(work)
        return False

    def _wake(self, work: _Work | Callable[[], None]) -> None:
        """A thread is done with what was waited for; called in the thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._put, work)

    def _put(self, work: _Work | Callable[[], None]) -> None:
        self._ready.append(work)
        self._schedule()

    def _schedule(self) -> None:
        if self._ready and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)
