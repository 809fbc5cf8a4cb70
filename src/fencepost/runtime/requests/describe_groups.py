"""DescribeGroups (key 15) v0-6: state, members and assignments of classic groups.

A group that does not exist is "Dead" without an error, from v6 on with GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.permissions import DESCRIBE_GROUP, ResourceType
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
    if not request.groups:
        return DescribeGroupsResponse()
    answers: list[DescribedGroup | None] = [None] * len(request.groups)
    outstanding = len(request.groups)
    with_operations = context.api_version >= OPERATIONS_FROM and (
        request.include_authorized_operations
    )

    def ask(position: int, group_id: str) -> None:
        def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
            return coordinator.decide_describe_groups([group_id], context.api_version, token)

        def on_reply(error: ErrorCode, described: list[DescribedGroup] | None) -> None:
            nonlocal outstanding
            if described is None:
                answers[position] = DescribedGroup(group_id=group_id, error_code=int(error))
            else:
                answers[position] = described[0]
                if with_operations and described[0].error_code == ErrorCode.NONE:
                    described[0].authorized_operations = access.operations(
                        context, ResourceType.GROUP, group_id
                    )
            outstanding -= 1
            if outstanding == 0:
                groups = [answer for answer in answers if answer is not None]
                context.reply(DescribeGroupsResponse(groups=groups))

        if refusal := access.refusal(context, DESCRIBE_GROUP, group_id):
            on_reply(refusal, None)
        else:
            groups.submit(group_id, decide, on_reply)

    for position, group_id in enumerate(request.groups):
        ask(position, group_id)
        yield None
    return None
