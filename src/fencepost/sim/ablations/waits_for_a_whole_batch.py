"""A follower that starts over takes no batch that begins before its leader's log does."""

from __future__ import annotations

from fencepost.machines.partition import following
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def never(log: object, answer: object) -> None:
    """Every log begins where it does."""


ABLATION = Ablation(
    "a follower whose leader's log begins in the middle of a batch never catches up",
    Rules(patches=((following, "beginning_for", never),)),
    scenarios=("S21",),
    is_found_by_search=False,
    in_brokers=True,
)
