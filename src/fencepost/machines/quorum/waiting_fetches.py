"""The fetches that wait at a leader for data, for a high watermark they do not know, or for time.

There may be thousands, and every fetch is a step: they are looked at after an update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from fencepost.wire.api.fetch import FetchPartition


class WaitingFetch(Struct):
    """Who waits (`token`), as which replica, for what, and until when."""

    token: Any
    replica_id: int
    asked: FetchPartition
    max_bytes: int
    deadline_ms: int
    loads_snapshots: bool = True


class WaitingFetches(Struct):
    """`seen` is what there was to hear when the fetches were last looked at."""

    fetches: list[WaitingFetch] = field(default_factory=list)
    seen: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.fetches)

    def add(self, fetch: WaitingFetch) -> None:
        """Let a fetch wait."""
        self.fetches.append(fetch)

    @property
    def earliest_deadline_ms(self) -> int | None:
        """When the first of them has waited long enough."""
        return min((fetch.deadline_ms for fetch in self.fetches), default=None)

    def take_ready(self, is_ready: Callable[[WaitingFetch], bool]) -> list[WaitingFetch]:
        """Those that have something to hear, in the order in which they came; the others stay."""
        ready: list[WaitingFetch] = []
        still: list[WaitingFetch] = []
        for fetch in self.fetches:
            (ready if is_ready(fetch) else still).append(fetch)
        self.fetches = still
        return ready
