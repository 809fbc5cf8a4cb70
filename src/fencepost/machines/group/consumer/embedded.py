"""The embedded consumer protocol, where consumer groups have members that speak the classic one.

A classic consumer says what it reads in the metadata of its protocols, and is told what to read as
an assignment; both name topics, where records of consumer groups have ids. A coordinator of classic
groups does not look into them; one of consumer groups has to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from fencepost.machines.group.consumer.member import Partitions
from fencepost.machines.image import ClusterImage
from fencepost.wire.errors import DecodeError
from fencepost.wire.records.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitionAssigned,
    TopicPartitionOwned,
    decode_prefixed,
    encode_prefixed,
)
from fencepost.wire.types import Uuid

_VERSION_BYTES: Final = 2


class CustomAssignorError(Exception):
    """An assignment has data of an assignor of the members' own, which would be lost."""


class Embedded(NamedTuple):
    """What a classic consumer says of itself."""

    topic_names: frozenset[str]
    owned: Partitions
    generation: int
    """That it owns them from; -1 if it does not say."""
    rack_id: str | None


def read_subscription(metadata: bytes, image: ClusterImage) -> Embedded:
    """What the metadata of a protocol says; DecodeError. What does not exist is not owned."""
    said = decode_prefixed(ConsumerProtocolSubscription, metadata)
    owned = _existing(said.owned_partitions, image)
    return Embedded(frozenset(said.topics), owned, said.generation_id, said.rack_id or None)


def read_assignment(assignment: bytes, image: ClusterImage) -> Partitions:
    """The partitions of an assignment, without those that do not exist.

    Nothing for a member that has not been assigned yet. DecodeError, CustomAssignorError.
    """
    if not assignment:
        return {}
    said = decode_prefixed(ConsumerProtocolAssignment, assignment)
    if said.user_data:
        raise CustomAssignorError
    return _existing(said.assigned_partitions, image)


def _existing(
    topics: Iterable[TopicPartitionOwned | TopicPartitionAssigned], image: ClusterImage
) -> Partitions:
    """The partitions by the ids of their topics, without those that do not exist."""
    partitions: dict[Uuid, frozenset[int]] = {}
    for topic in topics:
        found = image.topics_by_name.get(topic.topic)
        if found is not None:
            count = len(found.partitions)
            indexes = frozenset(index for index in topic.partitions if 0 <= index < count)
            if indexes:
                known = partitions.get(found.topic_id, frozenset())
                partitions[found.topic_id] = known | indexes
    return partitions


def write_assignment(
    partitions: Mapping[Uuid, frozenset[int]], metadata: bytes, image: ClusterImage
) -> bytes:
    """The partitions as a classic consumer reads them, in the version of its metadata."""
    topics = []
    for topic_id, indexes in partitions.items():
        found = image.topics_by_id.get(topic_id)
        if found is not None:
            topic = TopicPartitionAssigned(topic=found.name, partitions=sorted(indexes))
            topics.append(topic)
    topics.sort(key=lambda topic: topic.topic)
    message = ConsumerProtocolAssignment(assigned_partitions=topics)
    return encode_prefixed(message, _version_of(metadata))


def _version_of(metadata: bytes) -> int:
    if len(metadata) < _VERSION_BYTES:
        raise DecodeError("the metadata of a protocol needs a version")
    version = int.from_bytes(metadata[:_VERSION_BYTES], "big", signed=True)
    newest = ConsumerProtocolAssignment.max_version
    return min(max(version, ConsumerProtocolAssignment.min_version), newest)
