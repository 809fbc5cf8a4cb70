"""An answer that was asked for in an older leader epoch is taken for one of now (KAFKA-18991)."""

from __future__ import annotations

from fencepost.machines.fetcher import Fetcher
from fencepost.machines.fetcher.followed import Followed, Stage
from fencepost.machines.fetcher.session import Wanted
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def is_current(self: Fetcher, followed: Followed, asked: Wanted) -> bool:
    """The offset alone decides."""
    return (
        followed.stage is Stage.FETCHING
        and not followed.is_busy
        and asked.position.offset == followed.position.offset
    )


ABLATION = Ablation(
    "a follower appends what its leader had before it lost leadership and got it back",
    Rules(patches=((Fetcher, "_is_current", is_current),)),
    scenarios=("S31",),
    is_found_by_search=False,
    in_brokers=True,
)
