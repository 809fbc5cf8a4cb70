"""The partition that a Produce request names, for the ways that take requests from their bytes."""

from __future__ import annotations

from fencepost.runtime.internal_topics import INTERNAL_TOPICS
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid


def find_partition(
    replicas: ReplicaManager, is_by_id: bool, topic: bytes, index: int
) -> HostedPartition | None:
    """The partition of a topic's name or id, as it is on the wire; None if it cannot be had, or is
    one of the brokers' own."""
    if is_by_id:
        hosted = replicas.by_id(Uuid(topic), index)
    else:
        try:
            hosted = replicas.get(topic.decode(), index)
        except UnicodeDecodeError:
            return None
    if isinstance(hosted, ErrorCode) or hosted.topic in INTERNAL_TOPICS:
        return None
    return hosted
