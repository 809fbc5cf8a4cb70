"""What a simulated broker answers fetches with, where a broker has threads and a configuration."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from fencepost.log.page_cache import NotCachedError
from fencepost.runtime.replicas import HostedPartition


class AllIsCached:
    """`CachedReads`: a disk of a world does not keep its reader waiting."""

    def reading(self, tries: int, /) -> AbstractContextManager[None]:
        """No read is refused."""
        return nullcontext()

    def without_waiting(self) -> AbstractContextManager[None]:
        """There are descriptors for all files."""
        return nullcontext()

    def begin(self, cold: NotCachedError, ahead_bytes: int = 0, /) -> Future[None]:
        """No read is refused."""
        raise AssertionError("all is cached") from cold


class NoFetchPolicy:
    """`FetchPolicy`: consumers read from leaders, and no follower is throttled."""

    max_bytes: Final = 1 << 31

    def choose_replica(self, listener_name: str, rack: str, /) -> None:
        """The leader."""

    def is_held_back(self, replica_id: int, /) -> None:
        """No follower is."""

    def sent_to_follower(self, hosted: HostedPartition, size_bytes: int, /) -> None:
        """It is not counted."""
