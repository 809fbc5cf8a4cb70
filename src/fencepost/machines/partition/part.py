"""A part of a partition's machine: it decides one matter.

Each is given the partition, whose state all of them share, the outbox of the machine, and by name
the other parts that it asks. What only one part needs to know is held by that part.
"""

from __future__ import annotations

from fencepost.machines.outbox import StepOutbox
from fencepost.machines.partition.queries import PartitionQueries


class PartitionPart:
    """Decides one matter; a step reaches it by one of its `step_` methods."""

    __slots__ = ("_outbox", "_partition")

    def __init__(self, partition: PartitionQueries, outbox: StepOutbox) -> None:
        self._partition = partition
        self._outbox = outbox
