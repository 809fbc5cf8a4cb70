"""`CoordinatorsOnDemand`: a broker's coordinators, made when they are first needed.

They and their machines are eighty modules, an eighth of what a start would load. A broker needs
them when it first leads a partition of `__consumer_offsets` or `__transaction_state`, when the
first request of theirs comes, or when a scrape asks after them, and the first of these makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.broker.node.on_demand import ClosableOnDemand
from fencepost.runtime.internal_topics import INTERNAL_TOPICS
from fencepost.runtime.replicas import HostedPartition

if TYPE_CHECKING:
    from fencepost.broker.node.coordinators import Coordinators  # noqa: F401 - in a string


class CoordinatorsOnDemand(ClosableOnDemand["Coordinators"]):
    """See the module. It watches the broker's replicas (`runtime.replicas.ReplicaWatcher`)."""

    def became_leader(self, hosted: HostedPartition, leader_epoch: int) -> None:
        """This node leads the partition, from now on or in a new epoch."""
        if hosted.topic in INTERNAL_TOPICS:
            self.get().became_leader(hosted, leader_epoch)

    def lost_leadership(self, hosted: HostedPartition, leader_epoch: int | None) -> None:
        """Another node leads the partition in that epoch; None if it is not here any more."""
        if self.made is not None:  # else it was not led: nobody coordinates
            self.made.lost_leadership(hosted, leader_epoch)
