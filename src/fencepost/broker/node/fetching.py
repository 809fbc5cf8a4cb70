"""`Fetching`: makes a broker's fetchers when it first follows a partition.

They and their machine are a dozen modules, which a broker without other replicas never needs. The
first step of a partition whose leader is another broker makes them, or a scrape that asks how far
they are behind.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from fencepost.broker.node.on_demand import ClosableOnDemand
from fencepost.runtime.replicas import HostedPartition

if TYPE_CHECKING:
    from fencepost.broker.node.fetchers import Fetchers


class Fetching:
    """See the module."""

    def __init__(self, make: Callable[[], Fetchers]) -> None:
        self._on_demand = ClosableOnDemand(make)

    @property
    def fetchers(self) -> Fetchers:
        """The fetchers, made now if that has not been yet."""
        return self._on_demand.get()

    def looked_at(self, hosted: HostedPartition) -> None:
        """The partition's machine has made a step."""
        if self._on_demand.made is not None or hosted.machine.is_following:
            self.fetchers.of_partitions.looked_at(hosted)

    def gone(self, hosted: HostedPartition) -> None:
        """The partition is hosted here no longer."""
        if self._on_demand.made is not None:
            self._on_demand.made.of_partitions.gone(hosted)

    def broken(self, key: Hashable, reason: str) -> bool:
        """A machine broke down: whether it was a fetcher's, in whose place another one goes on."""
        made = self._on_demand.made
        return made is not None and made.broken(key, reason)

    def close(self) -> None:
        """Fetch nothing any more."""
        self._on_demand.close()
