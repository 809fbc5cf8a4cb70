"""Consumers are sent to the nearest replica, if `replica.selector.class` says so (KIP-392).

The rule is `machines.fetch.read_replica`'s; here it meets racks and listeners of the image, and
what the partition's leader knows of its followers.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.machines.fetch import ReadReplica, choose_by_rack
from fencepost.machines.image import ClusterImage
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.leader_hints import endpoint_of


def rack_selector(
    image: ClusterImage, own_id: int, listener_name: str, rack: str, now_ms: int
) -> Callable[[HostedPartition, int], int]:
    """For one fetch of a consumer in `rack`: which broker to read a partition's offset from."""
    own = image.brokers.get(own_id)
    own_rack = own.rack if own is not None else None

    def choose(hosted: HostedPartition, offset: int) -> int:
        others = []
        for broker_id, follower in hosted.machine.in_sync_holding(offset):
            broker = image.brokers.get(broker_id)
            if broker is None or broker.fenced or endpoint_of(broker, listener_name) is None:
                continue
            behind_for_ms = now_ms - follower.last_caught_up_ms
            others.append(ReadReplica(broker_id, broker.rack, follower.offset, behind_for_ms))
        return choose_by_rack(rack, own_rack, others)

    return choose
