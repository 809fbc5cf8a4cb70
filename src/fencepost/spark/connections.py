"""Clusters kept open between the tasks of one Python worker.

Spark forks Python workers and uses them again for many tasks, so connections and metadata kept in
a module global save every later task the set-up. Nothing here travels in pickles. A forked child
must not use its parent's sockets, hence the process id in the key.
"""

from __future__ import annotations

import os
from collections import OrderedDict

from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig

CLUSTERS_MAX = 8

_clusters: OrderedDict[tuple[int, ClientConfig], Cluster] = OrderedDict()


def cluster_for(config: ClientConfig) -> Cluster:
    """The worker's Cluster for `config`; the one longest unused is closed beyond CLUSTERS_MAX."""
    key = (os.getpid(), config)
    cluster = _clusters.pop(key, None)
    if cluster is None:
        cluster = Cluster(config=config)
    _clusters[key] = cluster
    while len(_clusters) > CLUSTERS_MAX:
        (owner, _), oldest = _clusters.popitem(last=False)
        if owner == key[0]:
            oldest.close()
    return cluster


def drop(config: ClientConfig) -> None:
    """Close the worker's Cluster for `config`, whose state an error left in doubt."""
    cluster = _clusters.pop((os.getpid(), config), None)
    if cluster is not None:
        cluster.close()
