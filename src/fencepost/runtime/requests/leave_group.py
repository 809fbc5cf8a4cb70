"""LeaveGroup (key 13) v0-5: members leave, or are taken out by an administrator.

Up to v2 a request names one member and its error is that of the whole answer; from v3 on there are
several, each with its own.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.runtime.clock import Clocks
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import READ_GROUP
from fencepost.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from fencepost.wire.errors import ErrorCode

BATCHED_FROM: Final = 3


def leave_group(
    context: RequestContext,
    request: LeaveGroupRequest,
    *,
    access: Access,
    clocks: Clocks,
    groups: GroupCoordinators,
) -> LeaveGroupResponse | None:
    """Have the group's coordinator decide."""
    if refusal := access.refusal(context, READ_GROUP, request.group_id):
        return LeaveGroupResponse(error_code=int(refusal))
    if not request.group_id:
        return LeaveGroupResponse(error_code=int(ErrorCode.INVALID_GROUP_ID))
    if context.api_version < BATCHED_FROM:
        request.members = [MemberIdentity(member_id=request.member_id)]

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        caller = Caller(token, context.api_version)
        return coordinator.decide_leave_group(request, caller, clocks.wall_ms())

    def on_reply(error: ErrorCode, response: LeaveGroupResponse | None) -> None:
        if response is None:
            response = LeaveGroupResponse(error_code=int(error))
        elif context.api_version < BATCHED_FROM and response.members:
            response.error_code = response.members[0].error_code
            response.members = []
        context.reply(response)

    groups.submit(request.group_id, decide, on_reply)
    return None
