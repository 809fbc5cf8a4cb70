"""I23: the epoch of a disk never falls, over crashes either, and a node goes by its disk."""

from __future__ import annotations

from typing import Any

from fencepost.sim.checks import Check
from fencepost.sim.oracle import NodeView, Oracle, Violation
from fencepost.wire.types import Uuid


class Epochs(Check):
    """Compares each written state with the one before, and each view with what is written."""

    kind = "I23"

    def __init__(self) -> None:
        self._written: dict[tuple[int, Uuid], Any] = {}

    def state_written(self, oracle: Oracle, node_id: int, state: Any) -> None:
        disk = node_id, oracle.disks[node_id].directory_id
        before = self._written.get(disk)
        if before is not None and state.epoch < before.epoch:
            raise Violation(
                self.kind, f"the epoch of {node_id} falls from {before.epoch} to {state.epoch}"
            )
        self._written[disk] = state

    def put_back(self, oracle: Oracle, node_id: int) -> None:
        self._written.pop((node_id, oracle.disks[node_id].directory_id), None)

    def state_read(self, oracle: Oracle, node_id: int, state: Any) -> None:
        written = self._written.get((node_id, oracle.disks[node_id].directory_id))
        forgotten = written is not None and (
            state.epoch < written.epoch
            or (state.epoch == written.epoch and written.voted_id not in (-1, state.voted_id))
        )
        if forgotten and not oracle.disks[node_id].is_damaged:
            raise Violation(self.kind, f"{node_id} wrote {written} and finds {state}")
        self._written[node_id, oracle.disks[node_id].directory_id] = state

    def stepped(self, oracle: Oracle, view: NodeView) -> None:
        directory_id = oracle.disks[view.node_id].directory_id
        written = self._written.get((view.node_id, directory_id))
        if view.role == "failed" or written is None:
            return
        if (view.epoch, view.voted_id) != (written.epoch, written.voted_id):
            raise Violation(
                self.kind,
                f"{view.node_id} goes by epoch {view.epoch} and its vote for {view.voted_id}, its"
                f" disk by epoch {written.epoch} and {written.voted_id}",
            )


CHECK = Epochs
