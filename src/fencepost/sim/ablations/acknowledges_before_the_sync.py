"""A leader answers acks=1 when the batch is in its page cache."""

from __future__ import annotations

from typing import Any

from fencepost.machines.partition import Produce, ProduceResult
from fencepost.machines.partition.acknowledging import Acknowledging
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

_wait = Acknowledging.wait


def wait_for_nothing(
    self: Any, produce: Produce, last_offset: int, result: ProduceResult, batches: int = 1
) -> None:
    """As the product does it, but for the wait of acks=1."""
    _wait(self, produce, last_offset, result, batches)
    if produce.acks == 1:
        self.for_disk.release(last_offset + 1)


ABLATION = Ablation(
    "what a producer was told is on the leader's disk a power cut takes",
    Rules(patches=((Acknowledging, "wait", wait_for_nothing),)),
    scenarios=("S94",),
    in_brokers=True,
)
