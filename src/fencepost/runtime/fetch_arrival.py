"""A fetch arrives: what its partitions have for it, and what they learn of a follower by it.

The rules are in `machines.fetch`; here they meet the partitions that are hosted.
"""

from __future__ import annotations

from typing import TypeVar

from fencepost.machines.driver import Driver
from fencepost.machines.fetch import FetchTerms, FetchWanted, Look, look_at, progress_told_by
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.errors import ErrorCode

Key = TypeVar("Key")


def look_on_arrival(
    driver: Driver,
    hosted: HostedPartition | ErrorCode,
    wanted: FetchWanted[Key],
    terms: FetchTerms,
) -> Look[HostedPartition, Key]:
    """Look at a partition for a fetch that has just arrived, and tell it of its follower.

    What a follower has may raise the high watermark, so it is told what holds after that.
    """
    look = look_at(hosted, wanted, terms)
    progress = progress_told_by(look, terms)
    if progress is None:
        return look
    assert isinstance(hosted, HostedPartition), "only what is here is told"
    driver.feed(hosted.key, progress)
    return look_at(hosted, wanted, terms) if look.has_moved else look
