"""How the console and its cluster are: whether looks succeed, how old the newest one is, and what
the console costs the cluster. Every page says so."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Final

from fencepost.console.page import Sentence
from fencepost.views.times import iso_time
from fencepost.views.view import View, count

WINDOW_S: Final = 60.0


class Rate:
    """What was added in the last WINDOW_S seconds; any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: deque[tuple[int, float]] = deque()

    def add(self, amount: float) -> None:
        now = int(time.monotonic())
        with self._lock:
            if self._seconds and self._seconds[-1][0] == now:
                self._seconds[-1] = (now, self._seconds[-1][1] + amount)
            else:
                self._seconds.append((now, amount))
            self._forget(now)

    def total(self) -> float:
        """The sum of what was added in the last WINDOW_S seconds."""
        with self._lock:
            self._forget(int(time.monotonic()))
            return sum(amount for _, amount in self._seconds)

    def _forget(self, now: int) -> None:
        while self._seconds and self._seconds[0][0] <= now - WINDOW_S:
            self._seconds.popleft()


class Standing(View, frozen=True):
    """How it stands at `at_ms` (since 1970).

    `sampled_at_ms` is when the newest sample was taken, None before the first. While looks fail,
    `failing_since_ms` is when the last one that did not was answered (before the first sample: when
    the first look began), and `failures` how many did since.
    `next_look_in_s` is when the cluster is asked again. Requests are those of the last minute:
    pages' and looks'. `looks_share` is the share of time that looks took, `pages_at_once` how many
    pages may ask the cluster at the same time; `allows_writes` whether it can be changed here.
    `sources` are what the console was given beside the cluster.
    """

    at_ms: int
    cluster_id: str | None
    sampled_at_ms: int | None
    failing_since_ms: int | None
    failures: int
    error: str | None
    next_look_in_s: float
    page_requests_per_minute: int
    look_requests_per_minute: int
    looks_share: float
    pages_at_once: int
    allows_writes: bool = False
    sources: tuple[str, ...] = ()

    @property
    def findings(self) -> list[Sentence]:
        """What a reader of any page has to know first; nothing where the cluster answers."""
        if self.failing_since_ms is None:
            return []
        tried = f"{count(self.failures, 'look')} failed, the next is in {self.next_look_in_s:.0f} s"
        shown = (
            "there is no sample of it yet"
            if self.sampled_at_ms is None
            else f"what is shown of it was so then, {age_text(self.at_ms - self.sampled_at_ms)} ago"
        )
        return [
            Sentence(
                f"The cluster has not answered since {iso_time(self.failing_since_ms)}"
                f" ({tried}); {shown}.",
                "bad",
            ),
            Sentence(f"The last look failed: {self.error}"),
        ]

    @property
    def load_text(self) -> str:
        """What the console cost the cluster in the last minute, and what bounds it."""
        return (
            f"the console's load on the cluster in the last minute:"
            f" {count(self.look_requests_per_minute, 'request')} to look at it"
            f" ({self.looks_share:.1%} of the time),"
            f" {count(self.page_requests_per_minute, 'request')} for pages"
            f" ({self.pages_at_once} pages at once)"
        )


def age_text(age_ms: int) -> str:
    """ "0.4 s", "12 s", "3 min 5 s", "2 h 10 min"."""
    seconds = max(age_ms, 0) / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
