"""What a coordinator has agreed to is appended also behind the marker that came meanwhile."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class TakesOldAnswers(PartitionRules):
    """See the module docstring."""

    def is_verified(self, ticket: int, present: int) -> bool:
        return True


ABLATION = Ablation(
    "a batch that comes late begins a transaction that nobody ends",
    Rules(partition=TakesOldAnswers()),
    scenarios=("S59",),
    is_found_by_search=False,
    in_transactions=True,
)
