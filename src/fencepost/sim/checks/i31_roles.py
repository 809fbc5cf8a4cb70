"""I31: what a node says of itself fits its role."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import NodeView, Oracle, Violation


class Roles(Check):
    """Looks at each view by itself."""

    kind = "I31"

    def stepped(self, oracle: Oracle, view: NodeView) -> None:
        me, leader = view.node_id, view.leader_id
        wrong = None
        if view.role == "leader" and leader != me:
            wrong = f"leads and takes {leader} for the leader"
        elif view.role == "follower" and leader in (me, -1):
            wrong = f"follows {leader}"
        elif view.role == "candidate" and (leader != -1 or view.voted_id != me):
            wrong = f"is a candidate with leader {leader} and a vote for {view.voted_id}"
        elif view.role != "leader" and leader == me:
            wrong = f"is {view.role} and takes itself for the leader"
        elif not 0 <= view.high_watermark <= view.end_offset:
            wrong = f"has high watermark {view.high_watermark} in a log to {view.end_offset}"
        if wrong is not None:
            raise Violation(self.kind, f"{me} {wrong}, in epoch {view.epoch}")


CHECK = Roles
