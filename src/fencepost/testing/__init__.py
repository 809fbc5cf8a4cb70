"""A real broker inside a test: `Cluster`, and the pytest fixture `fencepost_cluster`."""

from fencepost.testing.cluster import Cluster, ClusterError

__all__ = ["Cluster", "ClusterError"]
