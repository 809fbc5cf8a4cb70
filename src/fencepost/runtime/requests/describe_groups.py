"""DescribeGroups (key 15) v0-6: state, members and assignments of classic groups.

A group that does not exist is "Dead" without an error, from v6 on with GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.wire.api.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from fencepost.wire.errors import ErrorCode

OPERATIONS_FROM: Final = 3
GROUP_OPERATIONS: Final = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""What a client may do with a group, in the form of KIP-430: bit n is set if it is allowed the
operation with the number n (3 read, 6 delete, 8 describe, 10 describe configs, 11 alter configs).
There is no authorizer, so every client may do everything."""


def describe_groups(
    context: RequestContext, request: DescribeGroupsRequest, *, groups: GroupCoordinators
) -> Pieces:
    """Ask each group's coordinator; answer when all have answered."""
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
                    described[0].authorized_operations = GROUP_OPERATIONS
            outstanding -= 1
            if outstanding == 0:
                groups = [answer for answer in answers if answer is not None]
                context.reply(DescribeGroupsResponse(groups=groups))

        groups.submit(group_id, decide, on_reply)

    for position, group_id in enumerate(request.groups):
        ask(position, group_id)
        yield None
    return None
