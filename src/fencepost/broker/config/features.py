"""The cluster features this node can run, with the range of levels of each.

Only what is implemented is listed: the consumer groups of KIP-848 (`group.version`), share and
streams groups are not served, so a cluster must not finalize them. `kraft.version` 1 is voters that
come and go (KIP-853), `eligible.leader.replicas.version` 1 the eligible leader replicas of KIP-966.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct


class Feature(Struct, frozen=True):
    """A feature and the levels of it that this node can run."""

    name: str
    min_level: int
    max_level: int


METADATA_VERSION = Feature("metadata.version", 7, 33)
"""7 is 3.3-IV3, the first of KRaft in production; 33 is 4.4-IV2."""

KRAFT_VERSION = Feature("kraft.version", 0, 1)

ELIGIBLE_LEADER_REPLICAS = Feature("eligible.leader.replicas.version", 0, 1)
"""1: replicas that are not in sync any more, and lack nothing, may lead (KIP-966)."""

TRANSACTION_VERSION = Feature("transaction.version", 0, 2)
"""1: the coordinator's records can have tags (KIP-915); 2: every transaction has an epoch of its
own, and leaders add partitions to it (KIP-890)."""

SUPPORTED_FEATURES: tuple[Feature, ...] = (
    ELIGIBLE_LEADER_REPLICAS,
    KRAFT_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
)

NEW_CLUSTER_LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {
        **{feature.name: feature.max_level for feature in SUPPORTED_FEATURES},
        METADATA_VERSION.name: 30,
    }
)
"""The levels of a new cluster if nothing else is said: the newest, but of `metadata.version` 30
(4.3-IV0), so that nodes of Apache Kafka 4.3 can join it."""
