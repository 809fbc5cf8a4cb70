"""I10: who is in sync by the controllers' word has all that is below any replica's high watermark.

I17 asks it of the set that the leader knows. The controllers' may be another one: they have added
a replica, and the leader has not received the answer yet.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.image import PartitionDelta
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionKey, ReplicaView


class StrongIsr(Check):
    """Looks at the logs of the in-sync set when a replica moves its high watermark."""

    kind = "I10"

    def __init__(self) -> None:
        self._isr: dict[PartitionKey, tuple[int, ...]] = {}

    def partition_changed(self, oracle: Oracle, image: Any, change: PartitionDelta) -> None:
        self._isr[change.topic_id, change.index] = () if change.new is None else change.new.isr

    def replica_stepped(self, oracle: Oracle, view: ReplicaView) -> None:
        partitions = oracle.partitions
        before = partitions.views.get((view.broker_id, view.key))
        known = before.high_watermark if before is not None else view.high_watermark
        if view.high_watermark <= known or view.key in partitions.deleted:
            return
        shown = partitions.log(view.broker_id, view.key)
        for broker_id in self._isr.get(view.key, ()):
            log = partitions.logs.get((broker_id, view.key))
            begin = max(known, shown.start_offset, 0 if log is None else log.start_offset)
            wanted = shown.between(begin, view.high_watermark)
            if wanted and (log is None or log.between(begin, view.high_watermark) != wanted):
                raise Violation(
                    self.kind,
                    f"{view.broker_id} has a high watermark of {view.high_watermark} of partition"
                    f" {view.key[1]}; {broker_id}, in sync by the controllers' word, lacks some"
                    f" from {begin} on",
                )


CHECK = StrongIsr
