"""A coordinator that another has replaced goes on with what it knew when it leads again."""

from __future__ import annotations

from typing import Any

from fencepost.runtime.coordinator import CoordinatorRuntime, LedPartition
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

_load = CoordinatorRuntime.load


def load(self: Any, index: int, partition: LedPartition, leader_epoch: int) -> None:
    """Whatever is there goes on in the new epoch, whoever has led between."""
    present = self._coordinators.get(index)
    if present is None:
        _load(self, index, partition, leader_epoch)
    else:
        present.led_on(leader_epoch)


def unload(self: Any, index: int, leader_epoch: int | None) -> None:
    """Wait for the next epoch."""


ABLATION = Ablation(
    "a coordinator tells of offsets as they were before another one took over from it",
    Rules(patches=((CoordinatorRuntime, "load", load), (CoordinatorRuntime, "unload", unload))),
    scenarios=("S80",),
    is_found_by_search=False,
    in_brokers=True,
)
