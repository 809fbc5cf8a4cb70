"""SyncGroup (key 14) v0-5: hand in the assignment as the leader, and get one's own.

The answer comes when the leader's assignment is stored.
"""

from __future__ import annotations

from typing import Any

from fencepost.broker.groups.group_host import GroupHost
from fencepost.broker.net.registry import handles
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.membership import Caller
from fencepost.machines.group.shard import Decision
from fencepost.runtime.clock import Clocks
from fencepost.runtime.requests.context import RequestContext
from fencepost.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from fencepost.wire.errors import ErrorCode


@handles(SyncGroupRequest)
def handle(
    context: RequestContext, request: SyncGroupRequest, *, clocks: Clocks, group_host: GroupHost
) -> SyncGroupResponse | None:
    """Have the group's coordinator decide."""
    if not request.group_id:
        return SyncGroupResponse(error_code=int(ErrorCode.INVALID_GROUP_ID))

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        caller = Caller(token, context.api_version)
        return coordinator.decide_sync_group(request, caller, clocks.wall_ms())

    def on_reply(error: ErrorCode, response: SyncGroupResponse | None) -> None:
        context.reply(SyncGroupResponse(error_code=int(error)) if response is None else response)

    group_host.submit(request.group_id, decide, on_reply)
    return None
