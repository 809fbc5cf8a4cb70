"""Deadlines and exponential back-off.

A `Deadline` is the total time a caller grants, shared by every attempt below it. A `Backoff` makes
the pauses of `machines.backoff`, never longer than what the deadline leaves. `repeating` is the
one retry loop of the package: it repeats an attempt while it raises retriable `ClientError`s.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from fencepost.client.conversation import Conversation, Pause, Step, drive
from fencepost.client.errors import ClientError, DeadlineExceeded
from fencepost.machines.backoff import backoff_ms

log = logging.getLogger("fencepost.client")

T = TypeVar("T")


class Deadline:
    """A moment on the monotonic clock by which everything must be done."""

    __slots__ = ("_at", "timeout_ms")

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self._at = time.monotonic() + timeout_ms / 1000

    def remaining_ms(self) -> float:
        """Milliseconds left, 0 when passed."""
        return max(0.0, (self._at - time.monotonic()) * 1000)

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._at


class Backoff:
    """Pauses of `first_ms`, doubling up to `max_ms`, each with jitter."""

    __slots__ = ("_pauses", "first_ms", "max_ms")

    def __init__(self, first_ms: float = 100, max_ms: float = 1000) -> None:
        self.first_ms = first_ms
        self.max_ms = max_ms
        self._pauses = 0

    def next_ms(self) -> float:
        """The next pause in milliseconds."""
        self._pauses += 1
        return backoff_ms(self._pauses - 1, self.first_ms, self.max_ms, random.random())

    def reset(self) -> None:
        """An attempt has succeeded: the next pause is a first one again."""
        self._pauses = 0

    def sleep(self, deadline: Deadline) -> bool:
        """`pausing` for blocking clients."""
        return drive(pausing(self, deadline), _sleep)


def pausing(backoff: Backoff, deadline: Deadline) -> Conversation[bool]:
    """Pause; False, without pausing, when the deadline leaves no time for another try."""
    pause_ms = backoff.next_ms()
    if pause_ms >= deadline.remaining_ms():
        return False
    yield from Pause(pause_ms)
    return True


def repeating(
    what: str,
    attempt: Callable[[], Conversation[T]],
    deadline: Deadline,
    backoff: Backoff,
    before_retry: Callable[[ClientError], None] | None = None,
) -> Conversation[T]:
    """Have conversations of `attempt` until one comes to its end, or raises something that trying
    again cannot help.

    `before_retry` may act on the error (refresh metadata, count unknown topics) and may raise to
    give up. Raises DeadlineExceeded, from the last error, when `deadline` is reached first.
    """
    while True:
        try:
            return (yield from attempt())
        except ClientError as error:
            if not error.retriable:
                raise
            log.debug("%s: will retry after: %s", what, error)
            if before_retry is not None:
                before_retry(error)
            if not (yield from pausing(backoff, deadline)):
                raise DeadlineExceeded(
                    f"{what} did not succeed within {deadline.timeout_ms:.0f} ms", error
                ) from error


def retrying(
    what: str,
    attempt: Callable[[], T],
    deadline: Deadline,
    backoff: Backoff,
    before_retry: Callable[[ClientError], None] | None = None,
) -> T:
    """`repeating` for a blocking function."""

    def once() -> Conversation[T]:
        return attempt()
        yield  # a conversation without a step

    return drive(repeating(what, once, deadline, backoff, before_retry), _sleep)


def _sleep(step: Step[Any]) -> None:
    """Carry out the one step of conversations that only pause."""
    assert isinstance(step, Pause), step
    time.sleep(step.pause_ms / 1000)
