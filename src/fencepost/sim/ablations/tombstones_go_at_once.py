"""Compaction removes tombstones, and markers that nobody needs, as soon as it meets them."""

from __future__ import annotations

from fencepost.log.cleaner.filter import BatchFilter
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

ABLATION = Ablation(
    "who has read a record before it was deleted never hears of that (KIP-534)",
    Rules(patches=((BatchFilter, "_has_passed", lambda self, header: True),)),
    scenarios=("S66",),
    in_transactions=True,
    in_compaction=True,
)
