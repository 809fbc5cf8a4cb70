"""Managing consumer groups: list, describe, delete, and their committed offsets.

Every broker lists the groups it coordinates; everything else goes to the group's coordinator.
Offsets are set by committing without a member, which brokers allow while the group is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fencepost.client import asking
from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import BrokerError
from fencepost.client.faces import blocking
from fencepost.client.group_offsets import error_in, reading_offsets, writing_offsets
from fencepost.client.leaders import by_topic
from fencepost.client.membership import PROTOCOL_TYPE, decode_assignment
from fencepost.client.metadata import CommittedOffset as CommittedOffset, TopicPartition
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.wire.api.delete_groups import DeleteGroupsRequest
from fencepost.wire.api.describe_groups import DescribeGroupsRequest
from fencepost.wire.api.list_groups import ListGroupsRequest
from fencepost.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from fencepost.wire.errors import DecodeError, ErrorCode


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it; `state` and `kind` are empty from old brokers."""

    group_id: str
    state: str
    kind: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member and what it was assigned (consumer protocol only)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assigned: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A classic group; `assignor` is the protocol its members agreed on."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator_id: int
    members: tuple[GroupMember, ...]


def listing_groups(view: ClusterView[Any]) -> Conversation[list[ListedGroup]]:
    """All groups of all coordinators, by id."""
    yield from asking.describe(view, [])
    groups = {}
    for node in list(view.metadata.nodes.values()):
        response = yield from asking.request_node(node, ListGroupsRequest())
        if response.error_code != ErrorCode.NONE:
            raise BrokerError.of(response.error_code, "cannot list groups", host=node.address)
        for entry in response.groups:
            groups[entry.group_id] = ListedGroup(
                entry.group_id, entry.group_state, entry.group_type, entry.protocol_type
            )
    return [groups[group_id] for group_id in sorted(groups)]


def describing_group(view: ClusterView[Any], group: str) -> Conversation[GroupDescription]:
    """A classic group. Kafka answers for an unknown one with state Dead, or with
    GROUP_ID_NOT_FOUND (BrokerError) since version 6."""
    response = yield from asking.request_coordinator(
        view,
        group,
        DescribeGroupsRequest(groups=[group]),
        lambda r: error_in(r.groups),
        what=f"cannot describe group {group}",
    )
    found = response.groups[0]
    return GroupDescription(
        group_id=found.group_id,
        state=found.group_state,
        protocol_type=found.protocol_type,
        assignor=found.protocol_data,
        coordinator_id=(yield from asking.coordinator(view, group)).node_id,
        members=tuple(
            GroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                _assigned(found.protocol_type, bytes(member.member_assignment)),
            )
            for member in found.members
        ),
    )


def deleting_group(view: ClusterView[Any], group: str) -> Conversation[None]:
    """Delete an empty group with its offsets. Raises BrokerError NON_EMPTY_GROUP and so on."""
    yield from asking.request_coordinator(
        view,
        group,
        DeleteGroupsRequest(groups_names=[group]),
        lambda r: error_in(r.results),
        what=f"cannot delete group {group}",
    )


def altering_group_offsets(
    view: ClusterView[Any], group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> Conversation[None]:
    """Set a group's offsets, from outside, while it is empty; see
    `group_offsets.writing_offsets`."""
    yield from writing_offsets(view, ConsumerGroupMetadata(group), offsets)


def deleting_group_offsets(
    view: ClusterView[Any], group: str, partitions: Iterable[TopicPartition]
) -> Conversation[dict[TopicPartition, int]]:
    """Have a group forget what it has committed in some partitions (KIP-496); error codes by
    partition, 0 where it has, GROUP_SUBSCRIBED_TO_TOPIC where members read the topic.

    Raises BrokerError, GROUP_ID_NOT_FOUND among others.
    """
    topics = [
        OffsetDeleteRequestTopic(
            name=topic,
            partitions=[
                OffsetDeleteRequestPartition(partition_index=number) for number, _ in numbers
            ],
        )
        for topic, numbers in by_topic(dict.fromkeys(partitions)).items()
    ]
    response = yield from asking.request_coordinator(
        view,
        group,
        OffsetDeleteRequest(group_id=group, topics=topics),
        lambda r: r.error_code,
        what=f"cannot delete offsets of group {group}",
    )
    return {
        TopicPartition(topic.name, one.partition_index): one.error_code
        for topic in response.topics
        for one in topic.partitions
    }


class GroupAdmin:
    """The group half of `Admin`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    list_groups = blocking(listing_groups)
    describe_group = blocking(describing_group)
    delete_group = blocking(deleting_group)
    group_offsets = blocking(reading_offsets)
    alter_group_offsets = blocking(altering_group_offsets)
    delete_group_offsets = blocking(deleting_group_offsets)


def _assigned(protocol_type: str, assignment: bytes) -> tuple[TopicPartition, ...]:
    """What a member of the consumer protocol was assigned; nothing readable counts as nothing,
    because other protocols and other clients may put anything there."""
    if protocol_type != PROTOCOL_TYPE or not assignment:
        return ()
    try:
        return decode_assignment(assignment)
    except DecodeError:
        return ()
