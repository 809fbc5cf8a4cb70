"""ConsumerGroupDescribe (key 69) v0-1: state, epochs and members of consumer groups (KIP-848).

A group that does not exist, or is of another type, is GROUP_ID_NOT_FOUND, the empty id is
INVALID_GROUP_ID. A group whose members have a topic that the client may not describe is
TOPIC_AUTHORIZATION_FAILED, without its members.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.group.consumer.groups import ConsumerGroups
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.image.acls import ResourceType
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.consumer_group_heartbeat import is_offered
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.group_descriptions import describe_each
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import DESCRIBE_TOPIC
from fencepost.wire.api.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from fencepost.wire.errors import ErrorCode


def consumer_group_describe(
    context: RequestContext,
    request: ConsumerGroupDescribeRequest,
    *,
    access: Access,
    groups: GroupCoordinators,
    metadata: ClusterMetadata,
) -> Pieces:
    """Ask the coordinator of each group that the client may describe."""

    def decide(coordinator: GroupCoordinator, group_id: str, token: Any) -> Decision:
        return coordinator.of_type(ConsumerGroups).describe([group_id], token)

    def refused(group_id: str, error: ErrorCode) -> DescribedGroup:
        return DescribedGroup(group_id=group_id, error_code=int(error))

    def respond(described: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        return ConsumerGroupDescribeResponse(groups=[finished(one) for one in described])

    def finished(one: DescribedGroup) -> DescribedGroup:
        if one.error_code == ErrorCode.NONE and not all(map(may_describe, topics_of(one))):
            one = DescribedGroup(
                group_id=one.group_id,
                error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                error_message="The group has topics that the client may not describe.",
            )
        if one.error_code == ErrorCode.NONE and request.include_authorized_operations:
            one.authorized_operations = access.operations(context, ResourceType.GROUP, one.group_id)
        return one

    def may_describe(topic: str) -> bool:
        return access.allows(context, DESCRIBE_TOPIC, topic)

    if not is_offered(groups, metadata):
        off = [refused(one, ErrorCode.UNSUPPORTED_VERSION) for one in request.group_ids]
        return ConsumerGroupDescribeResponse(groups=off)
    return (
        yield from describe_each(
            context,
            request.group_ids,
            access,
            groups,
            decide=decide,
            refused=refused,
            respond=respond,
            empty_is_a_group=False,
        )
    )


def topics_of(group: DescribedGroup) -> set[str]:
    """The names of all topics that members have, or are to have."""
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
