"""S40: a leader takes every reader's log for the beginning of its own."""

from __future__ import annotations

from typing import Any

from fencepost.machines.quorum import QuorumMachine
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class SeesNoDivergence(QuorumMachine):
    """Never tells anybody where the logs part."""

    def _divergence(self, asked: Any) -> None:
        return None


ABLATION = Ablation(
    "followers keep what they have from a deposed leader",
    Rules(machine=SeesNoDivergence),
    scenarios=("S40",),
)
