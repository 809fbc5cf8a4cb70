"""SyncGroup (key 14) v0-5: the leader hands in the assignment, each member gets its part of it.

The answer comes when the leader's assignment is stored.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.runtime.clock import Clocks
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import READ_GROUP
from fencepost.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from fencepost.wire.errors import ErrorCode


def sync_group(
    context: RequestContext,
    request: SyncGroupRequest,
    *,
    access: Access,
    clocks: Clocks,
    groups: GroupCoordinators,
) -> SyncGroupResponse | None:
    """Have the group's coordinator decide."""
    if refusal := access.refusal(context, READ_GROUP, request.group_id):
        return SyncGroupResponse(error_code=int(refusal))
    if not request.group_id:
        return SyncGroupResponse(error_code=int(ErrorCode.INVALID_GROUP_ID))

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        caller = Caller(token, context.api_version)
        return coordinator.decide_sync_group(request, caller, clocks.wall_ms())

    def on_reply(error: ErrorCode, response: SyncGroupResponse | None) -> None:
        context.reply(SyncGroupResponse(error_code=int(error)) if response is None else response)

    groups.submit(request.group_id, decide, on_reply)
    return None
