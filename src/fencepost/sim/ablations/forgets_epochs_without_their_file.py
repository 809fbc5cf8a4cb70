"""A log whose leader-epoch checkpoint is gone starts without epochs (KAFKA-16541)."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.log import epoch_recovery
from fencepost.log.epochs import LeaderEpochCache
from fencepost.log.segment import Segment
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def from_batches(segments: Sequence[Segment], start_offset: int) -> LeaderEpochCache:
    """None, whatever the batches say."""
    return LeaderEpochCache()


ABLATION = Ablation(
    "a replica whose file of epochs is lost does not know whose its batches are",
    Rules(patches=((epoch_recovery, "_from_batches", from_batches),)),
    scenarios=("S32",),
    is_found_by_search=False,
    in_brokers=True,
)
