"""A follower cuts where its leader's epoch ends, though it never had that epoch (KIP-279)."""

from __future__ import annotations

from fencepost.log.epochs import EpochEndOffset
from fencepost.machines.partition import following
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def truncation_target(
    epochs: object, answer: EpochEndOffset, log_end_offset: int, high_watermark: int
) -> int:
    """The leader's end, whatever our own epochs are."""
    if answer.end_offset < 0:
        return min(high_watermark, log_end_offset)
    return min(answer.end_offset, log_end_offset)


ABLATION = Ablation(
    "a follower with an epoch of its own is told for ever that its log parts from its leader's",
    Rules(patches=((following, "truncation_target", truncation_target),)),
    scenarios=("S04",),
    is_found_by_search=False,
    in_brokers=True,
)
