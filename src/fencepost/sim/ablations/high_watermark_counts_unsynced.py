"""A leader's high watermark takes its own page cache for its disk, as Kafka's does."""

from __future__ import annotations

from fencepost.machines.effects import Effect
from fencepost.machines.partition.appending import AppendingPartition
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

_maybe_advance = AppendingPartition._maybe_advance


def maybe_advance(self: AppendingPartition, effects: list[Effect], now_ms: int) -> None:
    """As the product does it, with all of the log for durable."""
    self.durable_offset = self.log_end_offset
    _maybe_advance(self, effects, now_ms)


ABLATION = Ablation(
    "consumers read what a power cut of the leader takes",
    Rules(patches=((AppendingPartition, "_maybe_advance", maybe_advance),)),
    scenarios=("S02",),
    in_brokers=True,
)
