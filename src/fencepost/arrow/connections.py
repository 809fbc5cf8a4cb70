"""Clusters and producers kept open between the tasks of one Python worker.

Spark forks Python workers and uses them again for many tasks, so connections, metadata and producer
ids kept in a module global save every later task the set-up, and brokers a producer's state for
every task there ever was. Nothing here travels in pickles. A forked child must not use its parent's
sockets, hence the process id in the key.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING

from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig

if TYPE_CHECKING:
    from fencepost.client.batch_producer import BatchProducer

CLUSTERS_MAX = 8

_clusters: OrderedDict[tuple[int, ClientConfig], Cluster] = OrderedDict()
_producers: dict[tuple[int, ClientConfig], BatchProducer] = {}


def cluster_for(config: ClientConfig) -> Cluster:
    """The worker's Cluster for `config`; the one longest unused is closed beyond CLUSTERS_MAX."""
    key = (os.getpid(), config)
    cluster = _clusters.pop(key, None)
    if cluster is None:
        cluster = Cluster(config=config)
    _clusters[key] = cluster
    while len(_clusters) > CLUSTERS_MAX:
        former, oldest = _clusters.popitem(last=False)
        _producers.pop(former, None)
        if former[0] == key[0]:
            oldest.close()
    return cluster


def producer_for(config: ClientConfig) -> BatchProducer:
    """The worker's producer for `config`, not transactional, through its Cluster. A caller that
    leaves anything undelivered has to `drop` it."""
    cluster = cluster_for(config)
    key = (os.getpid(), config)
    producer = _producers.get(key)
    if producer is None:
        from fencepost.client.batch_producer import BatchProducer  # readers do without

        producer = _producers[key] = BatchProducer(cluster)
    return producer


def drop(config: ClientConfig) -> None:
    """Close the worker's Cluster for `config`, and its producer, whose state an error left in
    doubt."""
    key = (os.getpid(), config)
    _producers.pop(key, None)
    cluster = _clusters.pop(key, None)
    if cluster is not None:
        cluster.close()
