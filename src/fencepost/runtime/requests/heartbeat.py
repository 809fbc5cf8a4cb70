"""Heartbeat (key 12) v0-4: a member is alive, and the answer says whether it must join again.

While the group's coordinator loads the answer is NONE: no session ends before it has loaded, and
the member need not look for another coordinator.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import READ_GROUP
from fencepost.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from fencepost.wire.errors import ErrorCode


def heartbeat(
    context: RequestContext,
    request: HeartbeatRequest,
    *,
    access: Access,
    groups: GroupCoordinators,
) -> HeartbeatResponse | None:
    """Have the group's coordinator decide."""
    if refusal := access.refusal(context, READ_GROUP, request.group_id):
        return HeartbeatResponse(error_code=int(refusal))
    if not request.group_id:
        return HeartbeatResponse(error_code=int(ErrorCode.INVALID_GROUP_ID))

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        caller = Caller(token, context.api_version)
        return coordinator.decide_heartbeat(request, caller)

    def on_reply(error: ErrorCode, response: HeartbeatResponse | None) -> None:
        if response is None:
            if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                error = ErrorCode.NONE
            response = HeartbeatResponse(error_code=int(error))
        context.reply(response)

    groups.submit(request.group_id, decide, on_reply)
    return None
