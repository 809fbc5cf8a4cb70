"""A member of a consumer group as values: what it said, and how far it has come.

Each is what one record says of the member, so that records may be applied in any order: a
`Subscription` is ConsumerGroupMemberMetadata, a `Progress` ConsumerGroupCurrentMemberAssignment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from sys import getsizeof
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec import Struct

from fencepost.machines.group.memory import MEMBER_BYTES, PROTOCOL_BYTES
from fencepost.wire.records.group import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)
from fencepost.wire.types import Uuid

Partitions = Mapping[Uuid, frozenset[int]]
"""Partitions by their topic's id. No topic is there without partitions."""

Held = Mapping[Uuid, Mapping[int, int]]
"""Partitions with their assignment epochs: the member epoch in which each was given (KIP-1251)."""

JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2
"""The member epochs with a meaning: those of a heartbeat that joins, one that leaves, and one of a
static member that will be back. A member is in the last one until then."""

PARTITION_BYTES: Final = 96
"""Allowance for a partition that a member has, or is to have."""
TOPIC_BYTES: Final = 160
"""Allowance for a topic of those."""


class MemberState(IntEnum):
    """How a member stands to its target assignment, with the values of the record."""

    STABLE = 0
    """It has what it was to have in its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It has yet to say that it has given up partitions."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others hold."""
    UNKNOWN = 127
    """A later version wrote a state that this one does not know."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        """The state of a record."""
        return cls(value) if value in (0, 1, 2) else cls.UNKNOWN


class Subscription(Struct, frozen=True):
    """What a member has said of itself. `classic` is set while it speaks the classic protocol."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    regex: str = ""
    """Empty: it subscribes by names alone."""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None

    @classmethod
    def from_record(cls, value: ConsumerGroupMemberMetadataValue) -> Subscription:
        """What the record says."""
        return cls(
            value.instance_id,
            value.rack_id,
            value.client_id,
            value.client_host,
            frozenset(value.subscribed_topic_names),
            value.subscribed_topic_regex or "",
            value.rebalance_timeout_ms,
            value.server_assignor,
            value.classic_member_metadata,
        )

    def to_record(self) -> ConsumerGroupMemberMetadataValue:
        """The record that says it."""
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topic_names),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=self.classic,
        )

    def size_bytes(self, member_id: str) -> int:
        """What it takes of memory with the member's own objects, but for the names of topics."""
        texts = (
            member_id,
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.regex,
            self.server_assignor,
        )
        size = MEMBER_BYTES + sum(map(getsizeof, texts))
        if self.classic is not None:
            for protocol in self.classic.supported_protocols:
                size += PROTOCOL_BYTES + getsizeof(protocol.name) + len(protocol.metadata)
        return size


_NOTHING: Final[Held] = MappingProxyType({})


class Progress(NamedTuple):
    """How far a member has come to its target assignment."""

    epoch: int = JOINS
    previous_epoch: int = JOINS
    state: MemberState = MemberState.STABLE
    assigned: Held = _NOTHING
    pending: Held = _NOTHING
    """What it was told to give up, and may still read."""

    @classmethod
    def from_record(cls, value: ConsumerGroupCurrentMemberAssignmentValue) -> Progress:
        """What the record says."""
        epoch = value.member_epoch
        return cls(
            epoch,
            value.previous_member_epoch,
            MemberState.of(value.state),
            _held(value.assigned_partitions, epoch),
            _held(value.partitions_pending_revocation, epoch),
        )

    def to_record(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """The record that says it."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state.value,
            assigned_partitions=_listed(self.assigned),
            partitions_pending_revocation=_listed(self.pending),
        )

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it has what it is to have in that epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    @property
    def held(self) -> Iterator[tuple[Uuid, int]]:
        """All partitions that no other member may have."""
        for partitions in (self.assigned, self.pending):
            for topic_id, epochs in partitions.items():
                for index in epochs:
                    yield topic_id, index

    @property
    def size_bytes(self) -> int:
        """What it takes of memory."""
        return size_of(self.assigned) + size_of(self.pending)

    def holds_since(self, topic_id: Uuid, index: int) -> int | None:
        """The assignment epoch of a partition that it has or has yet to give up; None of others."""
        for partitions in (self.assigned, self.pending):
            epoch = partitions.get(topic_id, _NONE).get(index)
            if epoch is not None:
                return epoch
        return None


_NONE: Final[Mapping[int, int]] = {}


def size_of(partitions: Mapping[Uuid, Any]) -> int:
    """What partitions take of memory."""
    return sum(TOPIC_BYTES + PARTITION_BYTES * len(some) for some in partitions.values())


def _held(topics: Iterable[TopicPartitions], member_epoch: int) -> Held:
    """The partitions of a record; those without an assignment epoch have the member's."""
    held: dict[Uuid, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [member_epoch] * len(topic.partitions)
        if topic.partitions:
            held.setdefault(topic.topic_id, {}).update(zip(topic.partitions, epochs, strict=True))
    return held


def _listed(held: Held) -> list[TopicPartitions]:
    listed = []
    for topic_id, epochs in sorted(held.items()):
        indexes = sorted(epochs)
        listed.append(
            TopicPartitions(
                topic_id=topic_id,
                partitions=indexes,
                assignment_epochs=[epochs[index] for index in indexes],
            )
        )
    return listed
