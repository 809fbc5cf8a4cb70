"""Fetchers and fetch sessions that compare less than they must."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from fencepost.sim.ablations.ablation import (
    Ablation,
    always,
    changed,
    in_brokers,
)

fetch = partial(changed, "fetch")
fetcher = partial(changed, "fetcher")


TABLE: Final[Mapping[str, Ablation]] = {
    # An answer that was asked for in an older leader epoch is taken for one of now (KAFKA-18991).
    "answers-of-older-epochs-count": in_brokers(
        "a follower appends what its leader had before it lost leadership and got it back",
        fetcher(is_of_this_epoch=always(True)),
        "S31",
        searched=False,
    ),
    # A follower's fetch says neither its leader epoch nor its last one (before KIP-320).
    "followers-name-no-epochs": in_brokers(
        "a follower that missed two elections keeps what no other replica has",
        fetcher(named_epochs=lambda _, leader_epoch, last_epoch: (-1, -1)),
        "S06",
        searched=False,
    ),
    # A fetch that is repeated, or overtaken, is one like any other (KIP-227).
    "takes-repeated-fetches": in_brokers(
        "a broker that has gone silent is in sync, for what it asked for long ago",
        fetch(is_next=always(True)),
        "S30",
        searched=False,
    ),
}
