"""How many bytes per second throttled replication may take (KIP-73).

Theory of operation
-------------------
A rate is what was recorded in the last windows, by the time that they cover so far: 11 of them, a
second each, unless configured otherwise. It may be exceeded by one answer, which then has to be
waited off; nothing is cut short.

Only replication of the topics' throttled replicas counts, and only replicas that are not in sync
are held back: one that is in sync would fall out of the set, and acks=all would wait for it. So
those count in full and go on all the same, and others get what is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

UNLIMITED: Final = (1 << 63) - 1
"""Kafka's default of the throttled rates: no client is held back."""

ALL: Final = "*"


class ByteRate:
    """A limit in bytes per second, and what was recorded against it."""

    __slots__ = ("_samples", "_window_ms", "_windows", "limit")

    def __init__(self, limit: int = UNLIMITED, windows: int = 11, window_ms: int = 1_000) -> None:
        self.limit = limit
        self._windows = windows
        self._window_ms = window_ms
        self._samples: deque[list[int]] = deque()  # [begins at, bytes]

    @property
    def is_limited(self) -> bool:
        """Whether anybody may ever be held back."""
        return self.limit < UNLIMITED

    def record(self, size_bytes: int, now_ms: int) -> None:
        """So many bytes were sent."""
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._window_ms:
            samples.append([now_ms, 0])
            self._forget(now_ms)
        samples[-1][1] += size_bytes

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether more was sent than the limit allows."""
        if not self.is_limited:
            return False
        self._forget(now_ms)
        samples = self._samples
        if not samples:
            return False
        elapsed_ms = max(now_ms - samples[0][0], self._window_ms)
        return sum(size for _, size in samples) * 1_000 > self.limit * elapsed_ms

    def _forget(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._windows * self._window_ms
        while self._samples and self._samples[0][0] <= oldest_ms:
            self._samples.popleft()


def is_throttled(replicas: Iterable[str], index: int, broker_id: int) -> bool:
    """Whether `leader|follower.replication.throttled.replicas` names the broker's partition."""
    throttled = _partitions_of(tuple(replicas), broker_id)
    return throttled is None or index in throttled


@lru_cache(maxsize=4_096)
def _partitions_of(replicas: tuple[str, ...], broker_id: int) -> frozenset[int] | None:
    """The partitions whose replica on the broker is throttled; None for all."""
    if ALL in replicas:
        return None
    pairs = (text.split(":") for text in replicas if ":" in text)
    return frozenset(int(index) for index, owner in pairs if int(owner) == broker_id)
