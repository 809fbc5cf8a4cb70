"""AlterShareGroupOffsets (key 91) v0: set where an empty share group goes on (KIP-932).

In this order: the cluster has no share groups: 35; no right to read the group: 30; an empty group
id: 24; a topic that the client may not read: rows with 29, and one that does not exist: rows with
3; then the group's coordinator decides (`machines.group.share.offsets`). The answer is given when
share coordinators have begun the states; the rows of partitions that one refuses have its error.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.group.share.groups import ShareGroups
from fencepost.machines.group.share.offsets import AlterReply
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import READ_GROUP, READ_TOPIC
from fencepost.runtime.requests.share_offset_changes import WORDS, refuse_change
from fencepost.runtime.share_group_states import Failures
from fencepost.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from fencepost.wire.errors import ErrorCode


def alter_share_group_offsets(
    context: RequestContext,
    request: AlterShareGroupOffsetsRequest,
    *,
    access: Access,
    groups: GroupCoordinators,
    metadata: ClusterMetadata,
) -> AlterShareGroupOffsetsResponse | None:
    """Have the group's coordinator decide about the topics that the client may read."""
    group_id, image = request.group_id, metadata.image
    refusal = refuse_change(access, context, image, READ_GROUP, group_id)
    if refusal:
        words = WORDS.get(refusal)
        return AlterShareGroupOffsetsResponse(error_code=int(refusal), error_message=words)
    permitted, refused = [], []
    for topic in request.topics:
        error = access.refusal(context, READ_TOPIC, topic.topic_name)
        if not error and topic.topic_name not in image.topics_by_name:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if error:
            refused.append(_refused(topic, error))
        else:
            permitted.append(topic)

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        return coordinator.of_type(ShareGroups).offsets.alter(group_id, permitted, token)

    def on_reply(error: ErrorCode, reply: AlterReply | None) -> None:
        if reply is None:
            context.reply(
                AlterShareGroupOffsetsResponse(error_code=int(error), error_message=error.name)
            )
            return
        if not reply.response.error_code:
            reply.response.responses = [*refused, *reply.response.responses]
        if reply.message is None:
            context.reply(reply.response)
        else:
            assert groups.share_states is not None, "a broker reaches share coordinators"
            groups.share_states.initialize(reply.message, partial(_answer, context, reply.response))

    groups.submit(group_id, decide, on_reply)
    return None


def _answer(
    context: RequestContext,
    response: AlterShareGroupOffsetsResponse,
    error: ErrorCode,
    failures: Failures,
) -> None:
    """The share coordinators have answered; the group's has noted it, unless there is an error."""
    if error:
        response = AlterShareGroupOffsetsResponse(error_code=int(error), error_message=error.name)
    for topic in response.responses:
        for row in topic.partitions:
            failure = failures.get((topic.topic_id, row.partition_index))
            if failure is not None and not row.error_code:
                row.error_code, row.error_message = int(failure[0]), failure[1]
    context.reply(response)


def _refused(
    topic: AlterShareGroupOffsetsRequestTopic, error: ErrorCode
) -> AlterShareGroupOffsetsResponseTopic:
    rows = [
        AlterShareGroupOffsetsResponsePartition(
            partition_index=one.partition_index,
            error_code=int(error),
            error_message=WORDS[error],
        )
        for one in topic.partitions
    ]
    return AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=rows)
