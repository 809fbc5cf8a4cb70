"""`Coordination`: makes a broker's coordinators when they are first needed.

They and their machines are eighty modules, an eighth of what a start would load. A broker needs
them when it first leads a partition of `__consumer_offsets` or `__transaction_state`, when the
first request of theirs comes, or when a scrape asks after them, and the first of these makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost.broker.node.on_demand import ClosableOnDemand
from fencepost.runtime.internal_topics import INTERNAL_TOPICS
from fencepost.runtime.replicas import HostedPartition

if TYPE_CHECKING:
    from fencepost.broker.node.coordinators import Coordinators


class Coordination:
    """See the module. It watches the broker's replicas (`runtime.replicas.ReplicaWatcher`)."""

    def __init__(self, make: Callable[[], Coordinators]) -> None:
        self._on_demand = ClosableOnDemand(make)

    @property
    def coordinators(self) -> Coordinators:
        """The coordinators, made now if that has not been yet."""
        return self._on_demand.get()

    def became_leader(self, hosted: HostedPartition, leader_epoch: int) -> None:
        """This node leads the partition, from now on or in a new epoch."""
        if hosted.topic in INTERNAL_TOPICS:
            self.coordinators.became_leader(hosted, leader_epoch)

    def lost_leadership(self, hosted: HostedPartition, leader_epoch: int | None) -> None:
        """Another node leads the partition in that epoch; None if it is not here any more."""
        made = self._on_demand.made
        if made is not None:  # else it was not led: nobody coordinates
            made.lost_leadership(hosted, leader_epoch)

    def close(self) -> None:
        """Serve no more groups and transactions."""
        self._on_demand.close()
