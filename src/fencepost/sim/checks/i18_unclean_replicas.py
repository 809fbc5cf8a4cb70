"""I18: a broker that was not closed in order is neither in sync nor eligible when it comes back.

What it had may be gone with its page cache. It enters the in-sync set again, once it has caught up,
which I11 looks at. Without eligible leader replicas (KIP-966) the last one in sync stays so, and
the partition has no leader.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.controller.partition_change import is_elr_enabled
from fencepost.machines.image import BrokerImage, PartitionDelta, PartitionImage
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import BrokerBegun, PartitionKey, Stage
from fencepost.wire.types import Uuid


class UncleanReplicas(Check):
    """Looks at all partitions when a broker is unfenced for the first time since it started."""

    kind = "I18"

    def __init__(self) -> None:
        self._unclean: set[tuple[int, Uuid]] = set()
        """The incarnations that began after a crash, and were not unfenced yet."""
        self._partitions: dict[PartitionKey, PartitionImage] = {}

    def broker_begun(self, oracle: Oracle, begun: BrokerBegun, metadata_offset: int) -> None:
        if begun.stage is Stage.STARTS and begun.broker_id not in oracle.partitions.closed_in_order:
            self._unclean.add((begun.broker_id, begun.incarnation_id))

    def broker_changed(self, oracle: Oracle, broker_id: int, broker: BrokerImage | None) -> None:
        if broker is None or broker.fenced:
            return
        incarnation = broker_id, broker.incarnation_id
        if incarnation not in self._unclean:
            return
        self._unclean.remove(incarnation)
        for (_, index), known in self._partitions.items():
            if broker_id in (*known.isr, *known.eligible_leader_replicas):
                raise Violation(
                    self.kind,
                    f"{broker_id} was not closed in order, and counts for partition {index}: in"
                    f" sync {sorted(known.isr)}, eligible"
                    f" {sorted(known.eligible_leader_replicas)}",
                )

    def partition_changed(self, oracle: Oracle, image: Any, change: PartitionDelta) -> None:
        key = change.topic_id, change.index
        self._partitions.pop(key, None)
        if change.new is not None and (is_elr_enabled(image) or len(change.new.isr) > 1):
            self._partitions[key] = change.new


CHECK = UncleanReplicas
