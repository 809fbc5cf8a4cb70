"""A leader whose in-sync set is too small acknowledges and shows what it has (before KIP-966)."""

from __future__ import annotations

from fencepost.machines.partition import PartitionConfig
from fencepost.machines.partition.isr import LeaderState
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def is_under_min_isr(self: LeaderState, config: PartitionConfig) -> bool:
    """Never."""
    return False


ABLATION = Ablation(
    "what fewer brokers have than were asked for counts as safe",
    Rules(patches=((LeaderState, "is_under_min_isr", is_under_min_isr),)),
    scenarios=("S24",),
    in_brokers=True,
)
