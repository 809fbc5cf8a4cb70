"""A leader-epoch checkpoint counts as far as it can be read, whatever the batches say."""

from __future__ import annotations

from typing import Any

from fencepost.log import epoch_recovery
from fencepost.log.epochs import LeaderEpochCache
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def as_far_as_it_goes(path: str, data: bytes) -> LeaderEpochCache:
    """Every whole line behind the first two."""
    cache = LeaderEpochCache()
    for line in data.split(b"\n")[2:-1]:
        epoch, start_offset = map(int, line.split())
        cache.assign(epoch, start_offset)
    return cache


def agrees(*_: Any) -> bool:
    """Nobody looks."""
    return True


ABLATION = Ablation(
    "a replica takes batches of one epoch for those of the one before",
    Rules(
        patches=(
            (LeaderEpochCache, "decode", staticmethod(as_far_as_it_goes)),
            (epoch_recovery, "_agree", agrees),
        )
    ),
    scenarios=("S32",),
    is_found_by_search=False,
    in_brokers=True,
)
