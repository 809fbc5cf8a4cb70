"""I43: a group's generations rise along the log, and no older one commits behind a newer one."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.group_oracle import GenerationWrite, OffsetWrite
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey


class Generations(Check):
    """Follows the generations that are stored, and those whose members' commits are."""

    kind = "I43"

    def __init__(self) -> None:
        self._newest: dict[tuple[PartitionKey, str], int] = {}

    def became_visible(self, oracle: Oracle, key: PartitionKey, batch: PartitionBatch) -> None:
        for write in oracle.groups.writes_in(key, batch):
            if isinstance(write, GenerationWrite):
                group_id, generation, what = write.group_id, write.generation, "is stored"
                if generation is None:  # the group is deleted, and begins again
                    self._newest.pop((key, group_id), None)
                    continue
            elif not isinstance(write, OffsetWrite):
                continue
            else:
                group_id = write.key.group_id
                generation = oracle.groups.generation_of(write)
                if generation is None:
                    continue
                what = f"has committed {write.offset} of {write.key.topic}-{write.key.partition}"
            newest = self._newest.get((key, group_id), -1)
            if generation < newest:
                raise Violation(
                    self.kind,
                    f"generation {generation} of {group_id} {what} behind generation {newest}",
                )
            self._newest[key, group_id] = generation


CHECK = Generations
