"""I55: what a client may do is what the ACLs say that its broker had applied, no more and no less.

An ACL that was removed grants nothing from the image on that lacks it, and one that denies counts
from the image on that has it; a broker whose image is old grants nothing that this image does not
grant; brokers with the same image decide alike. Records are never sent that the ACLs of now refuse,
however long the fetch has waited for them.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.permission_oracle import PermissionTold, Question, is_allowed

KEPT = 4_096
"""Decisions that are kept for comparison with those of other brokers."""


class Permissions(Check):
    """Decides every question again, and compares brokers by the offsets of their images."""

    kind = "I55"

    def __init__(self) -> None:
        self._decided: dict[tuple[int, Question], bool] = {}

    def permission_told(self, oracle: Oracle, broker_id: int, told: PermissionTold) -> None:
        question, verdict = told.question, "allows" if told.allowed else "refuses"
        said = {is_allowed(question, told.now)}
        if told.may_be_old:
            said.add(is_allowed(question, told.before))
        if told.allowed not in said:
            raise Violation(self.kind, f"{broker_id} {verdict} {question}, unlike its ACLs")
        if len(said) > 1 or told.before is not told.now:
            return
        known = self._decided.setdefault((told.offset, question), told.allowed)
        if known is not told.allowed:
            what = f"{broker_id} {verdict} {question}, unlike another at offset {told.offset}"
            raise Violation(self.kind, what)
        if len(self._decided) > KEPT:
            del self._decided[next(iter(self._decided))]


CHECK = Permissions
