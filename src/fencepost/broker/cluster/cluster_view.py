"""What a node tells clients about the cluster: which brokers are alive, and where.

Metadata and DescribeCluster say the same things about brokers, by the rules of KIP-631: a fenced
broker is not listed, and a broker that has no listener of the name the client came in by does not
exist for that client. The functions here read an image and decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fencepost.machines.image import BrokerImage, ClusterImage, ListenerImage, PartitionImage
from fencepost.runtime.requests.leader_hints import endpoint_of


def live_brokers(
    image: ClusterImage, listener_name: str, *, include_fenced: bool = False
) -> Iterator[tuple[BrokerImage, ListenerImage]]:
    """The brokers a client on this listener can use, by id; `include_fenced`: the others too."""
    for broker_id in sorted(image.brokers):
        broker = image.brokers[broker_id]
        endpoint = endpoint_of(broker, listener_name)
        if endpoint is not None and (include_fenced or not broker.fenced):
            yield broker, endpoint


def admin_broker_id(image: ClusterImage, own_id: int) -> int:
    """The broker to name as controller: KRaft's controllers are not for clients, so any live one.

    This node if it is live, otherwise the live one with the lowest id; -1 if there is none.
    """
    live = sorted(id_ for id_, broker in image.brokers.items() if not broker.fenced)
    if own_id in live:
        return own_id
    return live[0] if live else -1


def reachable(image: ClusterImage, broker_ids: Iterable[int], listener_name: str) -> list[int]:
    """Those of the brokers that have the listener, fenced or not, in the same order."""
    brokers = image.brokers
    return [id_ for id_ in broker_ids if endpoint_of(brokers.get(id_), listener_name) is not None]


def offline_replicas(
    image: ClusterImage, partition: PartitionImage, listener_name: str
) -> list[int]:
    """Replicas whose broker is gone, fenced or not on the listener, or whose directory is lost."""
    offline = []
    for broker_id, directory in zip(partition.replicas, partition.directories, strict=True):
        broker = image.brokers.get(broker_id)
        if (
            broker is None
            or broker.fenced
            or endpoint_of(broker, listener_name) is None
            or not broker.has_online_directory(directory)
        ):
            offline.append(broker_id)
    return offline
