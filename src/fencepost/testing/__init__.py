"""Real brokers inside a test, with faults on demand.

`Cluster` starts them, the pytest fixture `fencepost_cluster` has one, and `Proxy` brings the same
faults to a cluster that is there already. `SchemaRegistry` is a schema registry for the clients
beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.lazy_names import lazy_names

if TYPE_CHECKING:
    from fencepost.testing.cluster import Cluster
    from fencepost.testing.cluster_security import ClusterSecurity
    from fencepost.testing.faults.rules import Fault, FaultError
    from fencepost.testing.node_process import ClusterError
    from fencepost.testing.proxy import Proxy
    from fencepost.testing.registry import SchemaRegistry
    from fencepost.testing.truncation import Truncation

__all__ = [
    "Cluster",
    "ClusterError",
    "ClusterSecurity",
    "Fault",
    "FaultError",
    "Proxy",
    "SchemaRegistry",
    "Truncation",
]

_MODULES = {
    "Cluster": "cluster",
    "ClusterError": "node_process",
    "ClusterSecurity": "cluster_security",
    "Fault": "faults.rules",
    "FaultError": "faults.rules",
    "Proxy": "proxy",
    "SchemaRegistry": "registry",
    "Truncation": "truncation",
}

# The processes that nodes are copied from need none of these.
__getattr__, __dir__ = lazy_names(globals(), _MODULES)
