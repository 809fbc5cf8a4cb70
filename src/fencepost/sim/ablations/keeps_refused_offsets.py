"""What a coordinator has applied stays when the log refuses the record."""

from __future__ import annotations

from fencepost.runtime.coordinator.rules import CoordinatorRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules
from fencepost.wire.errors import ErrorCode


class KeepsRefusedOffsets(CoordinatorRules):
    """What was decided has happened."""

    __slots__ = ()

    def is_reverted(self, error: ErrorCode) -> bool:
        """Nothing is undone."""
        return False


ABLATION = Ablation(
    "a coordinator tells of an offset that the log has refused, and its successor of another",
    Rules(coordinator=KeepsRefusedOffsets()),
    scenarios=("S101",),
    faults=("partition",),
    in_brokers=True,
)
