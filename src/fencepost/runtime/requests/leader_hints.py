"""Who leads a partition and where it is reached, for responses that spare the client a Metadata
request (KIP-951)."""

from __future__ import annotations

from msgspec import Struct

from fencepost.machines.image import BrokerImage, ClusterImage, ListenerImage, PartitionImage
from fencepost.wire.types import Uuid


def endpoint_of(broker: BrokerImage | None, listener_name: str) -> ListenerImage | None:
    """Where the broker is reached on the listener, or None if it is not."""
    for listener in broker.listeners if broker is not None else ():
        if listener.name == listener_name:
            return listener
    return None


class NodeAddress(Struct, frozen=True):
    """A broker's address on one listener."""

    node_id: int
    host: str
    port: int
    rack: str | None


class LeaderHints:
    """Looks up leaders in an image and remembers which brokers it named."""

    def __init__(self, image: ClusterImage, listener_name: str) -> None:
        self._image = image
        self._listener_name = listener_name
        self._named: set[int] = set()

    def leader_of(self, name: str, topic_id: Uuid, index: int) -> _Leader | None:
        """The leader of a partition of the topic, by name or (where that is empty) by id."""
        image = self._image
        topic = image.topics_by_name.get(name) if name else image.topics_by_id.get(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        partition: PartitionImage = topic.partitions[index]
        self._named.add(partition.leader)
        return _Leader(partition.leader, partition.leader_epoch)

    def endpoints(self) -> list[NodeAddress]:
        """Addresses of the brokers that were named, live and can be reached, by id."""
        found = []
        for broker_id in sorted(self._named):
            broker = self._image.brokers.get(broker_id)
            endpoint = endpoint_of(broker, self._listener_name)
            if broker is not None and not broker.fenced and endpoint is not None:
                found.append(NodeAddress(broker_id, endpoint.host, endpoint.port, broker.rack))
        return found


class _Leader(Struct, frozen=True):
    leader_id: int
    leader_epoch: int
