"""DescribeGroups (key 15) v0-6: state, members and assignments of classic groups.

A group that does not exist is "Dead" without an error, from v6 on with GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.image.acls import ResourceType
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.group_descriptions import describe_each
from fencepost.wire.api.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from fencepost.wire.errors import ErrorCode

OPERATIONS_FROM: Final = 3


def describe_groups(
    context: RequestContext,
    request: DescribeGroupsRequest,
    *,
    access: Access,
    groups: GroupCoordinators,
) -> Pieces:
    """Ask the coordinator of each group that the client may describe; answer when all have
    answered."""
    with_operations = context.api_version >= OPERATIONS_FROM and (
        request.include_authorized_operations
    )

    def decide(coordinator: GroupCoordinator, group_id: str, token: Any) -> Decision:
        return coordinator.decide_describe_groups([group_id], context.api_version, token)

    def refused(group_id: str, error: ErrorCode) -> DescribedGroup:
        return DescribedGroup(group_id=group_id, error_code=int(error))

    def respond(described: list[DescribedGroup]) -> DescribeGroupsResponse:
        for one in described if with_operations else ():
            if one.error_code == ErrorCode.NONE:
                one.authorized_operations = access.operations(
                    context, ResourceType.GROUP, one.group_id
                )
        return DescribeGroupsResponse(groups=described)

    asking = describe_each(
        context, request.groups, access, groups, decide=decide, refused=refused, respond=respond
    )
    return (yield from asking)
