"""Fetches that wait for data: whom to ask again when a partition moves.

Theory of operation
-------------------
A fetch that finds less than `min_bytes` waits. It waits for some partitions, for a number of bytes
over all of them, and for a deadline. When a partition moves (its high watermark, its log's end,
its leadership) only the fetches that wait on that partition are looked at, so a thousand idle
consumers of other partitions cost nothing.

What a partition has for a fetch, and when that is enough, is decided in `answering`; here it is
asked again about the one partition that moved. What was counted for the others when they moved is
kept, so a fetch is complete as soon as the sum is.

The answer is read afresh by whoever completes a fetch. A completed fetch is forgotten here at once;
completing, expiring and cancelling exclude each other.

Deadlines are kept in one heap; entries of fetches that are gone are dropped when they surface, and
swept when they are the majority. `next_deadline_ms` is the one timer a shell needs.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

from fencepost.machines.fetch.answering import Fetchable, FetchTerms, available_bytes, look_at
from fencepost.machines.fetch.sessions import FetchWanted
from fencepost.wire.errors import ErrorCode

Key = TypeVar("Key", bound=Hashable)

_SWEEP_AT_LEAST: Final = 64


class PendingFetch(Generic[Key]):
    """One fetch that waits, by its shell's keys for partitions. `token` is the shell's own."""

    __slots__ = (
        "_bytes",
        "_total",
        "deadline_ms",
        "is_waiting",
        "order",
        "partitions",
        "terms",
        "token",
    )

    def __init__(
        self, token: Any, partitions: dict[Key, FetchWanted[Any]], terms: FetchTerms
    ) -> None:
        self.token = token
        self.partitions = partitions
        self.terms = terms
        self.deadline_ms = terms.deadline_ms
        self.is_waiting = False
        self.order = -1
        """Its place among all that have waited, in the order of their arrival."""
        self._bytes: dict[Key, int] = {}
        self._total = 0

    def count(self, key: Key, size_bytes: int) -> bool:
        """`key` has `size_bytes` for this fetch now; whether that is enough in all."""
        self._total += size_bytes - self._bytes.get(key, 0)
        self._bytes[key] = size_bytes
        return self._total >= self.terms.min_bytes

    def look_again(self, key: Key, partition: Fetchable | ErrorCode) -> bool:
        """`key` has moved; whether the fetch is to be answered now."""
        look = look_at(partition, self.partitions[key], self.terms)
        size_bytes = available_bytes(look, self.terms)
        return size_bytes is None or self.count(key, size_bytes)


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

    def join(self, fetch: PendingFetch[Key], key: Key, wanted: FetchWanted[Any]) -> None:
        """A fetch that waits does so for one partition more, which has moved just now."""
        if fetch.is_waiting:
            fetch.partitions[key] = wanted
            self._by_partition.setdefault(key, {})[fetch] = None

    def moved(
        self, key: Key, partition: Fetchable | ErrorCode, *, log_end_alone: bool = False
    ) -> list[PendingFetch[Key]]:
        """The fetches that are complete now that `key` moved, in the order of their arrival.

        `log_end_alone`: nothing that consumers see has moved, so only replicas look again.
        """
        waiting = self._by_partition.get(key)
        if not waiting:
            return []
        complete = [
            fetch
            for fetch in waiting
            if (not log_end_alone or fetch.terms.is_replica) and fetch.look_again(key, partition)
        ]
        for fetch in complete:
            self._forget(fetch)
        return complete

    def gone(self, key: Key) -> list[PendingFetch[Key]]:
        """The partition is not here any more: everybody who waits on it is to be answered."""
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

    def cancel(self, fetch: PendingFetch[Key]) -> bool:
        """The client is gone; whether the fetch was still waiting."""
        if not fetch.is_waiting:
            return False
        self._forget(fetch)
        return True

    def next_deadline_ms(self) -> int | None:
        """When `expired` should be called next; None while no fetch waits."""
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
