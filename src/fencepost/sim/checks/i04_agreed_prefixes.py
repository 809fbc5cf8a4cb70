"""I04: any two replicas have the same below the lower of their high watermarks."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import ReplicaView


class AgreedPrefixes(Check):
    """Compares what a replica's high watermark has passed with all others that know it passed.

    A replica that has just started is compared from the start of its log on. A partition for which
    a scenario has asked for an unclean election is not compared: a replica of it may start with
    records that are lost, until it has fetched from its leader.
    """

    kind = "I04"

    def replica_stepped(self, oracle: Oracle, view: ReplicaView) -> None:
        partitions = oracle.partitions
        before = partitions.views.get((view.broker_id, view.key))
        known = view.start_offset if before is None else before.high_watermark
        if view.high_watermark <= known or view.key in partitions.may_lose:
            return
        log = partitions.log(view.broker_id, view.key)
        for broker_id, other in partitions.replicas_of(view.key).items():
            seen = partitions.views.get((broker_id, view.key))
            if seen is None or broker_id == view.broker_id:
                continue
            begin = max(known, log.start_offset, other.start_offset)
            end = min(view.high_watermark, seen.high_watermark)
            ours, theirs = log.between(begin, end), other.between(begin, end)
            if ours != theirs:
                raise Violation(
                    self.kind,
                    f"{view.broker_id} has {ours} of partition {view.key[1]} below its high"
                    f" watermark {view.high_watermark}, and {broker_id} has {theirs} below its"
                    f" {seen.high_watermark}",
                )


CHECK = AgreedPrefixes
