"""I50: what is produced after something was acknowledged has a higher offset."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionKey


class RealTime(Check):
    """Compares each acknowledgement with those that were there when it was asked for."""

    kind = "I50"

    def acknowledged(
        self, oracle: Oracle, key: PartitionKey, base_offset: int, crc: int, known_offset: int
    ) -> None:
        if base_offset < known_offset:
            raise Violation(
                self.kind,
                f"a batch is acknowledged at offset {base_offset} of partition {key[1]}; when"
                f" it was produced, everything below {known_offset} was",
            )


CHECK = RealTime
