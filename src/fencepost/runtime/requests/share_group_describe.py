"""ShareGroupDescribe (key 77) v1: state, members and assignments of share groups (KIP-932).

Per group: the cluster has no share groups: 35; no right to describe it: 30; an empty id: 24; no
such share group: 69, with words; a member is assigned a topic that the client may not describe: 29,
with words.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.group.share.groups import ShareGroups
from fencepost.machines.image.acls import ResourceType
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.group_descriptions import distinct
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import DESCRIBE_GROUP, DESCRIBE_TOPIC
from fencepost.runtime.requests.share_group_heartbeat import has_share_groups
from fencepost.wire.api.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from fencepost.wire.errors import ErrorCode

HIDDEN_TOPICS: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)


def share_group_describe(
    context: RequestContext,
    request: ShareGroupDescribeRequest,
    *,
    access: Access,
    groups: GroupCoordinators,
    metadata: ClusterMetadata,
) -> Pieces:
    """Ask the coordinator of each group that the client may describe; answer when all have
    answered."""
    if not request.group_ids:
        return ShareGroupDescribeResponse()
    is_on = has_share_groups(metadata.image)
    group_ids = distinct(request.group_ids)
    answers: list[DescribedGroup] = [DescribedGroup(group_id=one) for one in group_ids]
    outstanding = len(answers)

    def decide(group_id: str, coordinator: GroupCoordinator, token: Any) -> Decision:
        return coordinator.of_type(ShareGroups).describe([group_id], token)

    def on_reply(position: int, error: ErrorCode, told: list[DescribedGroup] | None) -> None:
        nonlocal outstanding
        if told is None:
            answers[position].error_code = int(error)
        else:
            answers[position] = told[0]
            if _has_hidden_topics(access, context, told[0]):
                answers[position] = DescribedGroup(
                    group_id=told[0].group_id,
                    error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                    error_message=HIDDEN_TOPICS,
                )
            elif request.include_authorized_operations and not told[0].error_code:
                told[0].authorized_operations = access.operations(
                    context, ResourceType.GROUP, told[0].group_id
                )
        outstanding -= 1
        if not outstanding:
            context.reply(ShareGroupDescribeResponse(groups=answers))

    for position, group_id in enumerate(group_ids):
        refusal = ErrorCode.UNSUPPORTED_VERSION
        if is_on:
            refusal = access.refusal(context, DESCRIBE_GROUP, group_id)
            if not refusal and not group_id:
                refusal = ErrorCode.INVALID_GROUP_ID
        if refusal:
            on_reply(position, refusal, None)
        else:
            groups.submit(group_id, partial(decide, group_id), partial(on_reply, position))
        yield None
    return None


def _has_hidden_topics(access: Access, context: RequestContext, group: DescribedGroup) -> bool:
    names = {
        topic.topic_name for member in group.members for topic in member.assignment.topic_partitions
    }
    return len(list(access.visible(context, DESCRIBE_TOPIC, names))) < len(names)
