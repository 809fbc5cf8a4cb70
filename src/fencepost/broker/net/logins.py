"""What the logins of all connections have in common: threads for what takes long, and counts.

A hashed password or the signature of a token takes milliseconds to check, in which the event loop
would serve no other client. So there are `THREADS` threads for that, and `WAITING_MAX` logins at
most that wait for them. Addresses have their turns one after the other, and a login that is one too
many costs the address that has most of them its latest: its client is disconnected, and clients try
again after a disconnection. So a client that tries passwords by the hundred keeps others waiting,
and lets them in. A login whose client has left is not checked any more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

from fencepost.broker.net.fair_queue import FairQueue
from fencepost.runtime.requests.audit import AuditSink, LoginEvent

log = logging.getLogger(__name__)

THREADS: Final = 2
WAITING_MAX: Final = 256


class Check(NamedTuple):
    """A login that takes long to check."""

    work: Callable[[], Any]
    """Checks it, on a thread."""
    is_wanted: Callable[[], bool]
    """Whether the client is there still."""
    on_done: Callable[[Any], None]
    """Called with what `work` returns, or with the exception that it raised."""
    on_refused: Callable[[], None]
    """Called instead if too many wait."""


class LoginCounts:
    """How many logins came to what, by the names of the listener and of the mechanism."""

    def __init__(self) -> None:
        self.succeeded: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[tuple[str, str]] = Counter()
        self.succeeded_again: Counter[tuple[str, str]] = Counter()
        """Of sessions that went on (KIP-368)."""
        self.failed_again: Counter[tuple[str, str]] = Counter()
        self.cannot_again: Counter[tuple[str, str]] = Counter()
        """Of those that succeeded: by clients that are not told how long their session lasts."""
        self.expired: Counter[str] = Counter()
        """Connections that were closed because their session had expired, by listener."""


class Logins:
    """See the module. Everything but `run`'s work is in the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.counts = LoginCounts()
        self.sink: AuditSink | None = None
        """Where logins are recorded; None: nowhere."""
        self._loop = loop
        self._threads: ThreadPoolExecutor | None = None
        self._waiting: FairQueue[Check] = FairQueue(WAITING_MAX)
        self._running = 0
        self._is_closed = False

    def later(self, delay_ms: int, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Have something called after so many milliseconds, unless it is cancelled."""
        return self._loop.call_later(delay_ms / 1000, call)

    def now_ms(self) -> int:
        """Of the monotonic clock."""
        return int(self._loop.time() * 1000)

    def wall_ms(self) -> int:
        """Since 1970."""
        return time.time_ns() // 1_000_000

    def tell(
        self, principal: str | None, host: str, listener: str, mechanism: str, reason: str = ""
    ) -> None:
        """A login has ended: `principal` has logged in, or a client was refused for a reason."""
        if self.sink is not None:
            succeeded = principal is not None
            self.sink.record_login(
                LoginEvent(self.wall_ms(), principal, host, listener, mechanism, succeeded, reason)
            )

    def run(self, host: str, check: Check) -> None:
        """Have a login from this address checked when it is its turn. No callback is called if it
        is not wanted any more."""
        if self._is_closed:
            check.on_refused()
            return
        one_too_many = self._waiting.add(host, check)
        self._start()
        if one_too_many is not None:
            one_too_many.on_refused()

    def _start(self) -> None:
        while self._waiting and self._running < THREADS and not self._is_closed:
            check = self._waiting.pop()
            if not check.is_wanted():
                continue
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="login")
            self._running += 1
            future = self._threads.submit(_work, check.work, check.is_wanted)
            asyncio.wrap_future(future, loop=self._loop).add_done_callback(
                partial(self._done, check)
            )

    def _done(self, check: Check, done: asyncio.Future[Any]) -> None:
        self._running -= 1
        self._start()
        if not done.cancelled() and check.is_wanted():
            check.on_done(done.result())

    def close(self) -> None:
        """No login is checked any more."""
        self._is_closed = True
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _work(work: Callable[[], Any], is_wanted: Callable[[], bool]) -> Any:
    if not is_wanted():
        return None
    try:
        return work()
    except Exception as error:
        log.exception("a login could not be checked")
        return error
