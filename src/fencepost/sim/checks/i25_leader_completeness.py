"""I25: the leader of the newest epoch has everything that is committed."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import NodeView, Oracle, Violation


class LeaderCompleteness(Check):
    """Looks once per leader, when it has just become one, whether its log holds it all.

    A deposed leader may go on for a while and need not have what was committed since: only a leader
    of the highest epoch that any leader has had is looked at.
    """

    kind = "I25"

    def __init__(self) -> None:
        self._newest = -1

    def stepped(self, oracle: Oracle, view: NodeView) -> None:
        if view.role != "leader" or view.epoch <= self._newest:
            return
        self._newest = view.epoch
        disk = oracle.disks[view.node_id]
        start = oracle.committed_position(disk.start_offset)
        committed = oracle.committed[start:]
        if disk.entries[: len(committed)] != committed:
            raise Violation(
                self.kind,
                f"{view.node_id}, leader of epoch {view.epoch}, lacks committed batches: its log"
                f" ends at {disk.end_offset}, committed is up to {oracle.committed_offset}",
            )


CHECK = LeaderCompleteness
