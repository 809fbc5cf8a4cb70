"""I29: voters change one at a time, each change after the one before is committed.

The leader that changes them has committed something in its own epoch (KIP-853).
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import NodeView, Oracle, Violation
from fencepost.wire.types import Uuid


class VoterChanges(Check):
    """Compares the voter set of a leader with the one it had a step ago, in the same epoch."""

    kind = "I29"

    def stepped(self, oracle: Oracle, view: NodeView) -> None:
        before = oracle.views.get(view.node_id)
        if (
            before is None
            or view.role != "leader"
            or before.role != "leader"
            or before.epoch != view.epoch
            or before.voters == view.voters
        ):
            return
        changed = _difference(before, view)
        if changed > 1:
            raise Violation(
                self.kind,
                f"{view.node_id} changes {changed} voters at once, from {_ids(before)} to"
                f" {_ids(view)}",
            )
        if changed and not before.is_active:
            raise Violation(
                self.kind,
                f"{view.node_id} changes voters and has committed nothing in epoch {view.epoch}",
            )
        if changed and (before.voters_offset or 0) >= before.high_watermark:
            raise Violation(
                self.kind,
                f"{view.node_id} changes voters, the change at {before.voters_offset} being open",
            )


def _difference(before: NodeView, after: NodeView) -> int:
    """How many voters came, went, or got another disk; a disk that was not known does not count."""
    old, new = dict(before.voters), dict(after.voters)
    moved = sum(old[id_] not in (Uuid.ZERO, new[id_]) for id_ in old.keys() & new.keys())
    return len(old.keys() ^ new.keys()) + 2 * moved


def _ids(view: NodeView) -> list[int]:
    return [id_ for id_, _ in view.voters]


CHECK = VoterChanges
