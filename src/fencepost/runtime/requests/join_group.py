"""JoinGroup (key 11) v0-9: become a member of a classic group, or take part in its rebalance.

The answer may take as long as the rebalance timeout. A member id is the client's id (or the static
member's instance id) and a suffix that makes it unique.
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
from fencepost.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import ReplacedText

NULL_PROTOCOL_FROM: Final = 7


def join_group(
    context: RequestContext,
    request: JoinGroupRequest,
    *,
    access: Access,
    clocks: Clocks,
    groups: GroupCoordinators,
) -> JoinGroupResponse | None:
    """Have the group's coordinator decide."""
    refusal = access.refusal(context, READ_GROUP, request.group_id) or _refusal(request)
    if refusal is not ErrorCode.NONE:
        return _response(context, request.member_id, refusal, None)
    member_id = request.member_id  # the request's buffers are used again while its answer waits
    suffix = groups.new_member_suffix()

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        caller = Caller(
            token,
            context.api_version,
            context.client_id or "",
            f"/{context.client_host}",  # as Kafka writes addresses, in records too
            suffix,
        )
        return coordinator.decide_join_group(request, caller, clocks.wall_ms())

    def on_reply(error: ErrorCode, response: JoinGroupResponse | None) -> None:
        context.reply(_response(context, member_id, error, response))

    groups.submit(request.group_id, decide, on_reply)
    return None


def _refusal(request: JoinGroupRequest) -> ErrorCode:
    """Why the coordinator does not get the request: text that is stored has to be UTF-8."""
    if not request.group_id or isinstance(request.group_id, ReplacedText):
        return ErrorCode.INVALID_GROUP_ID
    if isinstance(request.group_instance_id, ReplacedText):
        return ErrorCode.INVALID_REQUEST
    kinds = [request.protocol_type, *(protocol.name for protocol in request.protocols)]
    if any(isinstance(kind, ReplacedText) for kind in kinds):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _response(
    context: RequestContext,
    member_id: str,
    error: ErrorCode,
    response: JoinGroupResponse | None,
) -> JoinGroupResponse:
    if response is None:
        response = JoinGroupResponse(error_code=int(error), member_id=member_id)
    if response.error_code != ErrorCode.NONE:
        response.protocol_name = None if context.api_version >= NULL_PROTOCOL_FROM else ""
    return response
