"""A leader that lacks an epoch says where its next one begins (KIP-101, before KIP-279)."""

from __future__ import annotations

from fencepost.log.divergence import EpochEnds, find_divergence as _find_divergence
from fencepost.log.epochs import EpochEndOffset
from fencepost.machines.partition import queries
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def find_divergence(
    epochs: EpochEnds,
    last_fetched_epoch: int,
    fetch_offset: int,
    log_end: EpochEndOffset,
) -> EpochEndOffset | None:
    """As the product finds it, but under the epoch that was asked for."""
    end = epochs.end_offset_for(last_fetched_epoch, log_end.end_offset)
    if end.epoch == last_fetched_epoch or end.epoch < 0:
        return _find_divergence(epochs, last_fetched_epoch, fetch_offset, log_end)
    if end.end_offset >= fetch_offset:
        return None
    return EpochEndOffset(last_fetched_epoch, end.end_offset)


ABLATION = Ablation(
    "a follower keeps what it wrote as a leader that its leader never heard of",
    Rules(patches=((queries, "find_divergence", find_divergence),)),
    scenarios=("S03",),
    is_found_by_search=False,
    in_brokers=True,
)
