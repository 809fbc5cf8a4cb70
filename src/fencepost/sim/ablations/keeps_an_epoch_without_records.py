"""A follower's epoch cache keeps the epoch that it led and wrote nothing in."""

from __future__ import annotations

from fencepost.log.partition_log import PartitionLog
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

_truncate_to = PartitionLog.truncate_to


def truncate_to(self: PartitionLog, offset: int) -> None:
    """As the product does it, but for a log that ends there anyway."""
    if offset < self.end_offset:
        _truncate_to(self, offset)


ABLATION = Ablation(
    "a follower is told for ever that its log parts from its leader's at its end",
    Rules(patches=((PartitionLog, "truncate_to", truncate_to),)),
    scenarios=("S05",),
    is_found_by_search=False,
    in_brokers=True,
)
