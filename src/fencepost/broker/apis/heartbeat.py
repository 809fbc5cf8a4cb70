"""Heartbeat (key 12) v0-4: a member says that it is there, and hears whether to join again.

While the group's coordinator loads the answer is NONE: nobody is missed yet, and the member need
not look for another coordinator.
"""

from __future__ import annotations

from typing import Any

from fencepost.broker.groups.group_host import GroupHost
from fencepost.broker.net.registry import handles
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.membership import Caller
from fencepost.machines.group.shard import Decision
from fencepost.runtime.requests.context import RequestContext
from fencepost.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from fencepost.wire.errors import ErrorCode


@handles(HeartbeatRequest)
def handle(
    context: RequestContext, request: HeartbeatRequest, *, group_host: GroupHost
) -> HeartbeatResponse | None:
    """Have the group's coordinator decide."""
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

    group_host.submit(request.group_id, decide, on_reply)
    return None
