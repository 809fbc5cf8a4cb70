"""I05: log start <= high watermark <= log end, and durable offset <= log end, of each replica."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import ReplicaView


class Bounds(Check):
    """Looks at each step of a replica."""

    kind = "I05"

    def replica_stepped(self, oracle: Oracle, view: ReplicaView) -> None:
        if not view.start_offset <= view.high_watermark <= view.end_offset:
            raise Violation(
                self.kind,
                f"{view.broker_id} has high watermark {view.high_watermark} of a log from"
                f" {view.start_offset} to {view.end_offset}",
            )
        if view.durable_offset > view.end_offset:
            raise Violation(
                self.kind,
                f"{view.broker_id} has {view.durable_offset} for durable of a log that ends at"
                f" {view.end_offset}",
            )


CHECK = Bounds
