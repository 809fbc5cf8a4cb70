"""A follower is in sync that has reached the high watermark of a new leader (KAFKA-7128)."""

from __future__ import annotations

from fencepost.machines.partition import AlterPartition
from fencepost.machines.partition.isr import LeaderState
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

_propose_expansion = LeaderState.propose_expansion


def propose_expansion(
    self: LeaderState, replica_id: int, high_watermark: int
) -> AlterPartition | None:
    """As the product does it, as if the epoch began with the log."""
    start, self.epoch_start_offset = self.epoch_start_offset, 0
    try:
        return _propose_expansion(self, replica_id, high_watermark)
    finally:
        self.epoch_start_offset = start


ABLATION = Ablation(
    "a replica without what was acknowledged in an earlier epoch is elected",
    Rules(patches=((LeaderState, "propose_expansion", propose_expansion),)),
    in_brokers=True,
    search_within=120,
)
