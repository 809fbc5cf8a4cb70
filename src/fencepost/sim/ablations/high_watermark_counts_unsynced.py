"""A leader's high watermark takes its own page cache for its disk, as Kafka's does."""

from __future__ import annotations

from fencepost.machines.partition.acknowledging import Acknowledging
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

_maybe_advance = Acknowledging.maybe_advance


def maybe_advance(self: Acknowledging, now_ms: int) -> None:
    """As the product does it, with all of the log for durable."""
    self._partition.durable_offset = self._partition.log_end_offset
    _maybe_advance(self, now_ms)


ABLATION = Ablation(
    "consumers read what a power cut of the leader takes",
    Rules(patches=((Acknowledging, "maybe_advance", maybe_advance),)),
    scenarios=("S02",),
    in_brokers=True,
)
