"""What a coordinator has applied stays when the log refuses the record."""

from __future__ import annotations

from fencepost.machines.coordinator import UndoLog
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def revert(self: UndoLog) -> None:
    """Undo nothing."""
    self.commit()


ABLATION = Ablation(
    "a coordinator tells of an offset that the log has refused, and its successor of another",
    Rules(patches=((UndoLog, "revert", revert),)),
    scenarios=("S101",),
    in_brokers=True,
)
