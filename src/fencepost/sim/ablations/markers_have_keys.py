"""A user's record with the key of a marker supersedes the marker (KAFKA-14055)."""

from __future__ import annotations

from fencepost.log.cleaner.filter import BatchFilter
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

ABLATION = Ablation(
    "a transaction that is committed becomes part of the next one, and is aborted",
    Rules(patches=((BatchFilter, "_has_keys", staticmethod(lambda header: True)),)),
    scenarios=("S66",),
    in_transactions=True,
    in_compaction=True,
)
