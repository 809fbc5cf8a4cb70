"""ShareGroupHeartbeat (key 76) v1: members of share groups join, stay and leave (KIP-932).

In this order, before the coordinator decides (`machines.group.share.heartbeat`):

1. the cluster has no share groups (`share.version` 0): 35;
2. no right to read the group: 30;
3. a member id that is empty or longer than 36 characters: 42;
4. a topic that the client may not describe: 29, for all of them;
5. a blank member id, group id or rack id, a member that joins without topics, an epoch below -1:
   42, with words.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.partitioner import utf16_length
from fencepost.machines.group.shard import Decision
from fencepost.machines.group.share.groups import ShareGroups
from fencepost.machines.group.share.member import JOINS, LEAVES
from fencepost.machines.image import ClusterImage
from fencepost.runtime.clock import Clocks
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import DESCRIBE_TOPIC, READ_GROUP
from fencepost.wire.api.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from fencepost.wire.errors import ErrorCode

SHARE_VERSION: Final = "share.version"
"""The feature that share groups come with, from level 1 on."""
MEMBER_ID_LENGTH_MAX: Final = 36
"""In UTF-16 units: a UUID as text."""


def share_group_heartbeat(
    context: RequestContext,
    request: ShareGroupHeartbeatRequest,
    *,
    access: Access,
    clocks: Clocks,
    groups: GroupCoordinators,
    metadata: ClusterMetadata,
) -> ShareGroupHeartbeatResponse | None:
    """Have the group's coordinator decide."""
    refusal = _refusal(access, context, request, metadata.image)
    if refusal is not ErrorCode.NONE:
        return ShareGroupHeartbeatResponse(error_code=int(refusal))
    if words := _invalid(request):
        error = ErrorCode.INVALID_REQUEST
        return ShareGroupHeartbeatResponse(error_code=int(error), error_message=words)
    address = f"/{context.client_host}"  # as Kafka writes addresses, in records too
    client_id = context.client_id or ""

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        caller = Caller(token, context.api_version, client_id, address)
        shares = coordinator.of_type(ShareGroups)
        return shares.heartbeat(request, caller, clocks.wall_ms())

    def on_reply(error: ErrorCode, response: ShareGroupHeartbeatResponse | None) -> None:
        context.reply(response or ShareGroupHeartbeatResponse(error_code=int(error)))

    groups.submit(request.group_id, decide, on_reply)
    return None


def has_share_groups(image: ClusterImage) -> bool:
    """Whether the cluster has share groups."""
    return image.features.get(SHARE_VERSION, 0) >= 1


def _refusal(
    access: Access,
    context: RequestContext,
    request: ShareGroupHeartbeatRequest,
    image: ClusterImage,
) -> ErrorCode:
    if not has_share_groups(image):
        return ErrorCode.UNSUPPORTED_VERSION
    if refusal := access.refusal(context, READ_GROUP, request.group_id):
        return refusal
    if not 0 < utf16_length(request.member_id) <= MEMBER_ID_LENGTH_MAX:
        return ErrorCode.INVALID_REQUEST
    for name in dict.fromkeys(request.subscribed_topic_names or ()):
        if refusal := access.refusal(context, DESCRIBE_TOPIC, name):
            return refusal
    return ErrorCode.NONE


def _invalid(request: ShareGroupHeartbeatRequest) -> str | None:
    """What is wrong with the request, in Kafka's words."""
    if not request.member_id.strip():
        return "MemberId can't be empty."
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if request.member_epoch == JOINS and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    return "MemberEpoch is invalid." if request.member_epoch < LEAVES else None
