"""What requests of the streams group protocol (KIP-1071) have in common."""

from __future__ import annotations

from typing import Final

from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.parts import ClusterMetadata

STREAMS_PROTOCOL: Final = "streams"
STREAMS_VERSION: Final = "streams.version"


def is_offered(groups: GroupCoordinators, metadata: ClusterMetadata) -> bool:
    """Whether the cluster has streams groups, and this broker serves them."""
    level = metadata.image.features.get(STREAMS_VERSION, 0)
    return level >= 1 and STREAMS_PROTOCOL in groups.rebalance_protocols
