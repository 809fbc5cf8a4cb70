"""A follower's fetch says neither its leader epoch nor its last one (before KIP-320)."""

from __future__ import annotations

from fencepost.machines.fetcher import FetcherConfig, FollowedPartition, requests
from fencepost.machines.fetcher.requests import FetchForm
from fencepost.machines.fetcher.session import Wanted
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules
from fencepost.wire.api.fetch import FetchPartition

_fetch_partition = requests._fetch_partition


def fetch_partition(
    partition: FollowedPartition, wanted: Wanted, who: FetchForm, config: FetcherConfig
) -> FetchPartition:
    """As the product asks, without both."""
    asked = _fetch_partition(partition, wanted, who, config)
    asked.current_leader_epoch = asked.last_fetched_epoch = -1
    return asked


ABLATION = Ablation(
    "a follower that missed two elections keeps what nobody else has",
    Rules(patches=((requests, "_fetch_partition", fetch_partition),)),
    scenarios=("S06",),
    is_found_by_search=False,
    in_brokers=True,
)
