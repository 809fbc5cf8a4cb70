"""Kafka clients for any cluster that speaks Kafka's protocol: blocking ones and for asyncio.

    from fencepost.client import Cluster, Consumer, Producer

The twelve names of `__all__` are the public interface; docs/CLIENT.md has an example for each. The
modules of this package are public where that page names them, and otherwise may change.

A name is imported when it is first used: a broker, which needs the protocol half alone, loads no
producer, and a blocking client no event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.lazy_names import lazy_names

if TYPE_CHECKING:
    from fencepost.client.admin import Admin
    from fencepost.client.aio.cluster import AsyncCluster
    from fencepost.client.aio.consumer import AsyncConsumer
    from fencepost.client.aio.producer import AsyncProducer
    from fencepost.client.aio.share_consumer import AsyncShareConsumer
    from fencepost.client.cluster import Cluster
    from fencepost.client.config import ClientConfig
    from fencepost.client.consumer import Consumer
    from fencepost.client.errors import ClientError
    from fencepost.client.metadata import TopicPartition
    from fencepost.client.producer import Producer
    from fencepost.client.share_consumer import ShareConsumer

__all__ = [
    "Admin",
    "AsyncCluster",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncShareConsumer",
    "ClientConfig",
    "ClientError",
    "Cluster",
    "Consumer",
    "Producer",
    "ShareConsumer",
    "TopicPartition",
]

_MODULES = {
    "Admin": "admin",
    "AsyncCluster": "aio.cluster",
    "AsyncConsumer": "aio.consumer",
    "AsyncProducer": "aio.producer",
    "AsyncShareConsumer": "aio.share_consumer",
    "ClientConfig": "config",
    "ClientError": "errors",
    "Cluster": "cluster",
    "Consumer": "consumer",
    "Producer": "producer",
    "ShareConsumer": "share_consumer",
    "TopicPartition": "metadata",
}

__getattr__, __dir__ = lazy_names(globals(), _MODULES)
