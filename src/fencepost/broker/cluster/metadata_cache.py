"""The cluster's metadata as this node knows them, for handlers that answer from them."""

from __future__ import annotations

from fencepost.broker.config.features import KRAFT_VERSION
from fencepost.machines.image import ClusterImage
from fencepost.runtime.metadata.host import MetadataHost


class MetadataCache:
    """What is committed and applied here, and who leads the quorum."""

    def __init__(self, metadata: MetadataHost, cluster_id: str) -> None:
        self._metadata = metadata
        self.cluster_id = cluster_id

    @property
    def image(self) -> ClusterImage:
        """The cluster as far as it is committed; another object after every change."""
        return self._metadata.image

    @property
    def quorum_leader_id(self) -> int:
        """The active controller as far as this node knows; -1 if it knows none."""
        return self._metadata.machine.leader_id

    @property
    def finalized_features(self) -> dict[str, int]:
        """The levels the cluster runs at; that of kraft.version is in the log's control batches."""
        level = self._metadata.machine.kraft_version
        return {**self.image.features, **({KRAFT_VERSION.name: level} if level else {})}
