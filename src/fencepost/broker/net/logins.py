"""What the logins of all connections have in common: threads for what takes long, and counts.

A hashed password or the signature of a token takes milliseconds to check, in which the event loop
would serve no other client. So there are `THREADS` threads for that, and `WAITING_MAX` logins at
most that are checked or wait for it: a client whose login is one too many is disconnected, and
clients try again after a disconnection. A login whose client has left is not checked any more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from fencepost.runtime.requests.audit import AuditSink, LoginEvent

log = logging.getLogger(__name__)

THREADS: Final = 2
WAITING_MAX: Final = 256


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
        """Where logins are told; None: nowhere."""
        self._loop = loop
        self._threads: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._is_closed = False

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

    def run(
        self,
        work: Callable[[], Any],
        is_wanted: Callable[[], bool],
        on_done: Callable[[Any], None],
    ) -> bool:
        """Have `work` done on a thread, and call `on_done` with what it returns, or with the
        exception that it raised; neither if it is not wanted any more. False: there is too much to
        do already."""
        if self._waiting >= WAITING_MAX or self._is_closed:
            return False
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="login")
        self._waiting += 1
        future = self._threads.submit(_work, work, is_wanted)
        asyncio.wrap_future(future, loop=self._loop).add_done_callback(
            lambda done: self._done(done, is_wanted, on_done)
        )
        return True

    def _done(
        self,
        done: asyncio.Future[Any],
        is_wanted: Callable[[], bool],
        on_done: Callable[[Any], None],
    ) -> None:
        self._waiting -= 1
        if not done.cancelled() and is_wanted():
            on_done(done.result())

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
