"""A follower's fetch says neither its leader epoch nor its last one (before KIP-320)."""

from __future__ import annotations

from fencepost.machines.fetcher.rules import FetcherRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class FollowersNameNoEpochs(FetcherRules):
    """As fetches were before they had fields for them."""

    __slots__ = ()

    def named_epochs(self, leader_epoch: int, last_epoch: int) -> tuple[int, int]:
        """Neither."""
        return -1, -1


ABLATION = Ablation(
    "a follower that missed two elections keeps what nobody else has",
    Rules(fetcher=FollowersNameNoEpochs()),
    scenarios=("S06",),
    is_found_by_search=False,
    in_brokers=True,
)
