"""A leader does not compare epochs for consumers (before KIP-320)."""

from __future__ import annotations

from typing import Any

from fencepost.log.epochs import UNDEFINED_EPOCH
from fencepost.machines.partition.queries import CONSUMER_REPLICA_ID, PartitionQueries
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

_check_fetch = PartitionQueries.check_fetch


def check_fetch(self: PartitionQueries, **asked: Any) -> Any:
    """As the product does it, but for the epoch that a consumer names."""
    if asked.get("replica_id", CONSUMER_REPLICA_ID) < 0:
        asked["last_fetched_epoch"] = UNDEFINED_EPOCH
    return _check_fetch(self, **asked)


ABLATION = Ablation(
    "a consumer reads on as if nothing had happened, and misses what came instead",
    Rules(patches=((PartitionQueries, "check_fetch", check_fetch),)),
    scenarios=("S33",),
    is_found_by_search=False,
    in_brokers=True,
)
