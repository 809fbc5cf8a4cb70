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
"""1: groups of the consumer protocol (KIP-848)."""

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

_DEFAULTS: Final = (
    (KRAFT_VERSION, 1, 21),
    (GROUP_VERSION, 1, 22),
    (TRANSACTION_VERSION, 2, 24),
    (ELIGIBLE_LEADER_REPLICAS, 1, 26),
    (SHARE_VERSION, 1, 28),
    (STREAMS_VERSION, 1, 29),
    (SHARE_VERSION, 2, 31),
)
"""A feature, a level, and the `metadata.version` from which on new clusters have it."""


def default_levels(metadata_version: int) -> dict[str, int]:
    """The levels of a new cluster of this `metadata.version` if nothing else is said.

    They are those of Apache Kafka 4.4.0. That a feature is off by default below some level does not
    keep it from being finalized there.
    """
    levels = {feature.name: 0 for feature in SUPPORTED_FEATURES}
    levels[METADATA_VERSION.name] = metadata_version
    for feature, level, since in _DEFAULTS:
        if metadata_version >= since:
            levels[feature.name] = level
    return levels


NEW_CLUSTER_LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    default_levels(METADATA_VERSION.max_level)
)
"""The levels of a new cluster: those that Apache Kafka 4.4.0 formats."""
