"""`FetchersOnDemand`: a broker's fetchers, made when it first follows a partition.

They and their machine are a dozen modules, which a broker without other replicas never needs. The
first step of a partition whose leader is another broker makes them, or a scrape that asks how far
they are behind.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from fencepost.broker.node.on_demand import ClosableOnDemand
from fencepost.runtime.halted import HaltedReplica
from fencepost.runtime.replicas import HostedPartition

if TYPE_CHECKING:
    from fencepost.broker.node.fetchers import Fetchers  # noqa: F401 - in a string


class FetchersOnDemand(ClosableOnDemand["Fetchers"]):
    """See the module."""

    def looked_at(self, hosted: HostedPartition) -> None:
        """The partition's machine has made a step."""
        if self.made is not None or hosted.machine.is_following:
            self.get().of_partitions.looked_at(hosted)

    def gone(self, hosted: HostedPartition) -> None:
        """The partition is hosted here no longer."""
        if self.made is not None:
            self.made.of_partitions.gone(hosted)

    def halted(self) -> Iterator[HaltedReplica]:
        """The replicas that do not catch up because nothing comes of their fetches."""
        if self.made is not None:
            yield from self.made.of_partitions.halted()

    def broken(self, key: Hashable, reason: str) -> bool:
        """A machine broke down: whether it was a fetcher's, in whose place another one goes on."""
        return self.made is not None and self.made.broken(key, reason)
