"""Compaction removes a batch that has lost its records, also if it is the last of its producer."""

from __future__ import annotations

from fencepost.log.cleaner.filter import BatchFilter
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

ABLATION = Ablation(
    "a batch that is sent again is there twice, once the log was copied",
    Rules(patches=((BatchFilter, "_is_producers_last", lambda self, header: False),)),
    scenarios=("S66",),
    faults=("kill", "pause", "partition"),
    in_brokers=True,
    in_compaction=True,
)
