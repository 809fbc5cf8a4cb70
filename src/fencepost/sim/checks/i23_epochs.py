"""I23: the epoch of a disk never falls, and a node goes by what is on its disk."""

from __future__ import annotations

from typing import Any

from fencepost.sim.checks import Check
from fencepost.sim.truth import NodeView, Truth, Violation


class Epochs(Check):
    """Compares each written state with the one before, and each view with what is written."""

    kind = "I23"

    def __init__(self) -> None:
        self._written: dict[int, Any] = {}

    def state_written(self, truth: Truth, node_id: int, before: Any, after: Any) -> None:
        if after.epoch < before.epoch:
            raise Violation(
                self.kind, f"the epoch of {node_id} falls from {before.epoch} to {after.epoch}"
            )
        self._written[node_id] = after

    def stepped(self, truth: Truth, view: NodeView) -> None:
        written = self._written.get(view.node_id)
        if view.role == "failed" or written is None:
            return
        if (view.epoch, view.voted_id) != (written.epoch, written.voted_id):
            raise Violation(
                self.kind,
                f"{view.node_id} goes by epoch {view.epoch} and its vote for {view.voted_id}, its"
                f" disk by epoch {written.epoch} and {written.voted_id}",
            )


CHECK = Epochs
