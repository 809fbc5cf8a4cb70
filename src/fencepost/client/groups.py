"""Managing groups of every type: list, delete, and the offsets that consumers have committed.
`group_descriptions` describes them; the offsets of share groups are in `share_groups`.

Every broker lists the groups it coordinates; everything else goes to the group's coordinator.
Offsets are set by committing without a member, which brokers allow while the group is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from fencepost.client import asking
from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation, Exchange
from fencepost.client.errors import BrokerError, refusal
from fencepost.client.faces import blocking
from fencepost.client.group_descriptions import describing_group, describing_streams_group
from fencepost.client.group_offsets import error_in, reading_offsets, writing_offsets
from fencepost.client.leaders import by_topic
from fencepost.client.metadata import CommittedOffset as CommittedOffset, TopicPartition
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.client.share_groups import (
    altering_share_offsets,
    deleting_share_offsets,
    describing_share_offsets,
)
from fencepost.wire.api.delete_groups import DeleteGroupsRequest
from fencepost.wire.api.list_groups import ListGroupsRequest
from fencepost.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from fencepost.wire.errors import ErrorCode, is_retriable

FIRST_LIST_OF_STATES: Final = 4
FIRST_LIST_OF_TYPES: Final = 5
"""Versions from which ListGroups can list groups of some states, and of some types."""


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it; `state` and `kind` are empty from old brokers."""

    group_id: str
    state: str
    kind: str
    protocol_type: str


def listing_groups(
    view: ClusterView[Any],
    *,
    kinds: Iterable[str] = (),
    states: Iterable[str] = (),
    protocols: Iterable[str] = (),
) -> Conversation[list[ListedGroup]]:
    """The groups of all coordinators, by id: those of these types (KIP-848; see `GROUP_TYPES`), in
    these states (KIP-518) and of these protocol types, in upper or lower case; without any, all.

    UnsupportedApi where a broker is too old for a filter.
    """
    kinds, states, wanted = list(kinds), list(states), {one.lower() for one in protocols}
    lowest = FIRST_LIST_OF_TYPES if kinds else FIRST_LIST_OF_STATES if states else None
    request = ListGroupsRequest(states_filter=states, types_filter=kinds)
    yield from asking.describe(view, [])
    groups = {}
    for node in list(view.metadata.nodes.values()):
        connection = yield from asking.connect(node)
        version = connection.version_for(ListGroupsRequest, lowest=lowest)
        response = yield from Exchange(connection, request, version)
        if response.error_code != ErrorCode.NONE:
            raise BrokerError.of(response.error_code, "cannot list groups", host=node.address)
        for entry in response.groups:
            if wanted and entry.protocol_type.lower() not in wanted:
                continue
            groups[entry.group_id] = ListedGroup(
                entry.group_id, entry.group_state, entry.group_type, entry.protocol_type
            )
    return [groups[group_id] for group_id in sorted(groups)]


def deleting_group(view: ClusterView[Any], group: str) -> Conversation[None]:
    """Delete an empty group of any type with its offsets. Raises BrokerError NON_EMPTY_GROUP and so
    on, with the broker's own words where it has some (Kafka 4.4)."""

    def error_of(response: Any) -> int:
        code = error_in(response.results)
        return code if is_retriable(code) else 0

    what = f"cannot delete group {group}"
    response = yield from asking.request_coordinator(
        view, group, DeleteGroupsRequest(groups_names=[group]), error_of, what=what
    )
    result = response.results[0]
    if result.error_code != ErrorCode.NONE:
        text = result.error_message or refusal(result.error_code)
        raise BrokerError.of(result.error_code, f"{what}: {text}")


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
    describe_streams_group = blocking(describing_streams_group)
    delete_group = blocking(deleting_group)
    group_offsets = blocking(reading_offsets)
    alter_group_offsets = blocking(altering_group_offsets)
    delete_group_offsets = blocking(deleting_group_offsets)
    share_group_offsets = blocking(describing_share_offsets)
    alter_share_group_offsets = blocking(altering_share_offsets)
    delete_share_group_offsets = blocking(deleting_share_offsets)
