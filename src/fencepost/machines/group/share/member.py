"""A member of a share group as values: what it said, and what it was last told.

Each is what one record says of the member, so that records may be applied in any order: a
`Subscription` is ShareGroupMemberMetadata, a `Progress` ShareGroupCurrentMemberAssignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from sys import getsizeof
from typing import Any, Final, TypeVar

from msgspec import Struct

from fencepost.machines.group.memory import MEMBER_BYTES, PROTOCOL_BYTES
from fencepost.machines.group.share.assignor import Partitions
from fencepost.wire.records.group import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
)
from fencepost.wire.records.group_share import TopicPartitions
from fencepost.wire.types import Uuid

JOINS: Final = 0
LEAVES: Final = -1
"""The member epochs of a heartbeat that joins, and of one that leaves."""

STABLE: Final = 0
"""The only state of a member of a share group."""

T = TypeVar("T")


class Subscription(Struct, frozen=True):
    """What a member has said of itself."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()

    @classmethod
    def from_record(cls, value: ShareGroupMemberMetadataValue) -> Subscription:
        """What the record says."""
        names = frozenset(value.subscribed_topic_names)
        return cls(value.rack_id, value.client_id, value.client_host, names)

    def to_record(self) -> ShareGroupMemberMetadataValue:
        """The record that says it."""
        return ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topic_names),
        )

    def size_bytes(self, member_id: str) -> int:
        """What it takes of memory, with the member's own objects."""
        texts = (member_id, self.rack_id, self.client_id, self.client_host)
        names = sum(PROTOCOL_BYTES + getsizeof(name) for name in self.topic_names)
        return MEMBER_BYTES + sum(map(getsizeof, texts)) + names


class Progress(Struct, frozen=True):
    """The epoch that a member has reached, and what it fetches from in it."""

    epoch: int = 0
    previous_epoch: int = -1
    """Accepted as well, from a member that an answer did not reach."""
    assigned: Partitions = {}

    @classmethod
    def from_record(cls, value: ShareGroupCurrentMemberAssignmentValue) -> Progress:
        """What the record says."""
        assigned = partitions_from(value.assigned_partitions)
        return cls(value.member_epoch, value.previous_member_epoch, assigned)

    def to_record(self) -> ShareGroupCurrentMemberAssignmentValue:
        """The record that says it."""
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=STABLE,
            assigned_partitions=partitions_to(TopicPartitions, self.assigned),
        )


def partitions_from(topics: Iterable[Any]) -> Partitions:
    """The partitions of structs that have a `topic_id` and `partitions`."""
    found: dict[Uuid, frozenset[int]] = {}
    for topic in topics:
        if topic.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()).union(topic.partitions)
    return found


def partitions_to(make: Callable[..., T], partitions: Mapping[Uuid, frozenset[int]]) -> list[T]:
    """The partitions as such structs, of the class `make`."""
    return [
        make(topic_id=topic_id, partitions=sorted(indexes))
        for topic_id, indexes in sorted(partitions.items())
    ]
