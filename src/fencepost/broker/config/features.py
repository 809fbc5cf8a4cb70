"""The cluster features this node can run, with the range of levels of each.

Only what is implemented is listed. `kraft.version` 1 is voters that come and go (KIP-853),
`eligible.leader.replicas.version` 1 the eligible leader replicas of KIP-966.
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

GROUP_VERSION = Feature("group.version", 0, 1)
"""1: consumer groups (KIP-848)."""

SHARE_VERSION = Feature("share.version", 0, 2)
"""1: share groups (KIP-932); 2: their dead letters (KIP-1191)."""

STREAMS_VERSION = Feature("streams.version", 0, 1)
"""1: streams groups (KIP-1071)."""

SUPPORTED_FEATURES: tuple[Feature, ...] = (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)

NEW_CLUSTER_LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {feature.name: feature.max_level for feature in SUPPORTED_FEATURES}
)
"""The levels of a new cluster if nothing else is said: those that Apache Kafka 4.4.0 formats."""
