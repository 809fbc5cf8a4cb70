"""An answer that was asked for in an older leader epoch is taken for one of now (KAFKA-18991)."""

from __future__ import annotations

from fencepost.machines.fetcher.rules import FetcherRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class AnswersOfOlderEpochsCount(FetcherRules):
    """The offset alone decides."""

    __slots__ = ()

    def is_of_this_epoch(self, asked: int, current: int) -> bool:
        """Always."""
        return True


ABLATION = Ablation(
    "a follower appends what its leader had before it lost leadership and got it back",
    Rules(fetcher=AnswersOfOlderEpochsCount()),
    scenarios=("S31",),
    is_found_by_search=False,
    in_brokers=True,
)
