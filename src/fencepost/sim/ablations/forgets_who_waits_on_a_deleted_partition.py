"""What a replica is told before it is deleted is lost with its machine."""

from __future__ import annotations

from collections.abc import Hashable

from fencepost.machines.driver import Driver
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def drain(self: Driver, key: Hashable) -> None:
    """Later."""


ABLATION = Ablation(
    "a producer on a partition that is deleted waits for ever",
    Rules(patches=((Driver, "drain", drain),)),
    scenarios=("S29",),
    # In random worlds few producers wait at the moment at which a topic is deleted.
    is_found_by_search=False,
    in_brokers=True,
)
