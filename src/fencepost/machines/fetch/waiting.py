"""Fetches that wait for data: whom to ask again when a partition moves.

Theory of operation
-------------------
A fetch that finds less than `min_bytes` waits. It waits for some partitions, for a number of bytes
over all of them, and for a deadline. When a partition moves (its high watermark, its log's end,
its leadership) only the fetches that wait on that partition are looked at, so a thousand idle
consumers of other partitions cost nothing.

How many bytes there are for a fetch the log knows, not this module: `moved` is given a `probe`,
which it asks about the fetch's share of the partition that moved. The probe answers with a number
of bytes, or with None if the fetch must be answered now: the partition is gone, its leader changed,
the client's epoch is fenced, the logs diverged, the disk failed. What was counted for the other
partitions when they moved is kept, so a fetch is complete as soon as the sum is.

The answer is read afresh by whoever completes a fetch. A completed fetch is forgotten here at once;
completing, expiring and cancelling exclude each other.

Deadlines are kept in one heap; entries of fetches that are gone are dropped when they surface, and
swept when they are the majority. `next_deadline_ms` is the one timer a shell needs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_SWEEP_AT_LEAST: Final = 64


class PendingFetch(Generic[Key]):
    """One fetch that waits. `token` and the values of `partitions` are the shell's own."""

    __slots__ = (
        "_bytes",
        "_total",
        "deadline_ms",
        "is_waiting",
        "min_bytes",
        "order",
        "partitions",
        "token",
    )

    def __init__(
        self, token: Any, partitions: dict[Key, Any], min_bytes: int, deadline_ms: int
    ) -> None:
        self.token = token
        self.partitions = partitions
        self.min_bytes = min_bytes
        self.deadline_ms = deadline_ms
        self.is_waiting = False
        self.order = -1
        """Its place among all that have waited, in the order of their arrival."""
        self._bytes: dict[Key, int] = {}
        self._total = 0

    def count(self, key: Key, size_bytes: int) -> bool:
        """`key` has `size_bytes` for this fetch now; whether that is enough in all."""
        self._total += size_bytes - self._bytes.get(key, 0)
        self._bytes[key] = size_bytes
        return self._total >= self.min_bytes


class PendingFetches(Generic[Key]):
    """Every fetch of a broker that waits."""

    def __init__(self) -> None:
        # Insertion order, so that who waited first is answered first.
        self._by_partition: dict[Key, dict[PendingFetch[Key], None]] = {}
        # (deadline, order) also of fetches that are gone, so no more than that: who names a late
        # deadline and leaves must not leave the partitions here.
        self._deadlines: list[tuple[int, int]] = []
        self._waiting: dict[int, PendingFetch[Key]] = {}
        self._order = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, fetch: PendingFetch[Key], found: Iterable[tuple[Key, int]] = ()) -> None:
        """Let `fetch` wait; `found` is what its partitions had when they were read just now."""
        assert not fetch.is_waiting
        fetch.is_waiting = True
        for key, size_bytes in found:
            fetch.count(key, size_bytes)
        for key in fetch.partitions:
            self._by_partition.setdefault(key, {})[fetch] = None
        self._order += 1
        fetch.order = self._order
        self._waiting[fetch.order] = fetch
        heapq.heappush(self._deadlines, (fetch.deadline_ms, fetch.order))

    def waits_on(self, key: Key) -> bool:
        """Whether anybody waits on the partition."""
        return key in self._by_partition

    def moved(
        self, key: Key, probe: Callable[[PendingFetch[Key], Any], int | None]
    ) -> list[PendingFetch[Key]]:
        """The fetches that are complete now that `key` moved, in the order of their arrival.

        `probe(fetch, fetch.partitions[key])` is asked for each fetch that waits on `key`.
        """
        waiting = self._by_partition.get(key)
        if not waiting:
            return []
        complete = []
        for fetch in waiting:
            size_bytes = probe(fetch, fetch.partitions[key])
            if size_bytes is None or fetch.count(key, size_bytes):
                complete.append(fetch)
        for fetch in complete:
            self._forget(fetch)
        return complete

    def gone(self, key: Key) -> list[PendingFetch[Key]]:
        """The partition was deleted or lost: everybody who waits on it is to be answered."""
        complete = list(self._by_partition.get(key, ()))
        for fetch in complete:
            self._forget(fetch)
        return complete

    def expired(self, now_ms: int) -> list[PendingFetch[Key]]:
        """The fetches whose time is up."""
        complete = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            fetch = self._waiting.get(heapq.heappop(self._deadlines)[1])
            if fetch is not None:
                self._forget(fetch)
                complete.append(fetch)
        return complete

    def clock_set(self, by_ms: int) -> None:
        """The clock was set by so much: everybody has as long left as before."""
        self._deadlines = [(at_ms + by_ms, order) for at_ms, order in self._deadlines]
        for fetch in self._waiting.values():
            fetch.deadline_ms += by_ms

    def cancel(self, fetch: PendingFetch[Key]) -> bool:
        """The client is gone; whether the fetch was still waiting."""
        if not fetch.is_waiting:
            return False
        self._forget(fetch)
        return True

    def next_deadline_ms(self) -> int | None:
        """When `expired` should be called next; None while nobody waits."""
        while self._deadlines and self._deadlines[0][1] not in self._waiting:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _forget(self, fetch: PendingFetch[Key]) -> None:
        fetch.is_waiting = False
        del self._waiting[fetch.order]
        for key in fetch.partitions:
            waiting = self._by_partition[key]
            del waiting[fetch]
            if not waiting:
                del self._by_partition[key]
        if len(self._deadlines) > max(2 * len(self._waiting), _SWEEP_AT_LEAST):
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._waiting]
            heapq.heapify(self._deadlines)
