"""A fetch that is repeated, or overtaken, is one like any other (KIP-227)."""

from __future__ import annotations

from fencepost.machines.fetch.rules import FetchRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class TakesRepeatedFetches(FetchRules):
    """See the module docstring."""

    def is_next(self, asked: int, expected: int) -> bool:
        return True


ABLATION = Ablation(
    "a broker that nobody hears from is in sync, for what it asked for long ago",
    Rules(fetch=TakesRepeatedFetches()),
    scenarios=("S30",),
    is_found_by_search=False,
    in_brokers=True,
)
