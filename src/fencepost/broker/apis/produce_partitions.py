"""The partition that a Produce request names, for the ways that take requests from their bytes."""

from __future__ import annotations

from fencepost.runtime.internal_topics import INTERNAL_TOPICS
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.access import Client, PartitionAccess
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid


def find_partition(
    partitions: PartitionAccess, client: Client, is_by_id: bool, topic: bytes, index: int
) -> HostedPartition | None:
    """The partition of a topic's name or id, as it is on the wire; None if it cannot be had, is not
    the client's to write, or is one of the brokers' own.

    A refusal is not recorded here, but where the request is read that has it, and refused."""
    try:
        named = Uuid(topic) if is_by_id else topic.decode()
    except UnicodeDecodeError:
        return None
    hosted = partitions.find_to_write(client, named, index)
    if isinstance(hosted, ErrorCode) or hosted.topic in INTERNAL_TOPICS:
        return None
    return hosted
