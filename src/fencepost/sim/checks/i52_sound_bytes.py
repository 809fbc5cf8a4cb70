"""I52: bad bytes are never served: a batch that is served, taken over or read is sound.

A batch is sound if its bytes fit its checksum. Of what a broker serves it is known besides what it
has in its log: a sound batch from somewhere else is no better than a damaged one.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import NO_BROKER, Passed, Place


class SoundBytes(Check):
    """Looks at each batch wherever it passes."""

    kind = "I52"

    def batch_passed(self, oracle: Oracle, passed: Passed) -> None:
        place, broker_id, key, batch, is_sound = passed
        who = "a consumer" if broker_id == NO_BROKER else str(broker_id)
        where = f"of partition {key[1]} {place.value} {who}"
        if not is_sound:
            raise Violation(self.kind, f"a damaged batch {batch} {where}")
        if place is not Place.SERVED:
            return
        log = oracle.partitions.log(broker_id, key)
        there = log.between(batch.base_offset, batch.next_offset)
        if there != [batch]:
            raise Violation(self.kind, f"{batch} {where}, which has {there}")


CHECK = SoundBytes
