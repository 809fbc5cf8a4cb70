"""I08: who leads is in sync, who is in sync has a replica, and who is fenced is neither.

A fenced broker stays in an in-sync set only as its last member, without a leader.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.image import PartitionDelta
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation


class InSyncSets(Check):
    """Looks at each partition that the controllers have changed."""

    kind = "I08"

    def partition_changed(self, oracle: Oracle, image: Any, change: PartitionDelta) -> None:
        new = change.new
        if new is None:
            return
        name = f"{change.topic}-{change.index}"
        isr, elr = set(new.isr), set(new.eligible_leader_replicas)
        if not isr | elr <= set(new.replicas) or isr & elr:
            raise Violation(self.kind, f"{name} has replicas {new.replicas}, ISR {isr}, ELR {elr}")
        if new.leader >= 0 and new.leader not in isr:
            raise Violation(self.kind, f"{new.leader} leads {name} and is not in sync: {isr}")
        for broker_id in isr:
            broker = image.brokers.get(broker_id)
            is_fenced = broker is not None and broker.fenced
            if is_fenced and (new.leader == broker_id or len(isr) > 1):
                raise Violation(self.kind, f"{broker_id} is fenced and in the ISR of {name}: {isr}")


CHECK = InSyncSets
