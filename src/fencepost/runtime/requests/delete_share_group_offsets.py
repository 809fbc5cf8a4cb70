"""DeleteShareGroupOffsets (key 92) v0: forget where an empty share group is in topics (KIP-932).

In this order: the cluster has no share groups: 35; no right to delete the group: 30; an empty group
id: 24; a topic that the client may not read: its row has 29; then the group's coordinator decides
(`machines.group.share.offsets`). The answer is given when share coordinators have deleted the
states of all partitions; the row of a topic of which one refuses to has its error.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.group.share.groups import ShareGroups
from fencepost.machines.group.share.offsets import DeleteReply
from fencepost.machines.group.share.state import DeleteStates
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import DELETE_GROUP, READ_TOPIC
from fencepost.runtime.requests.share_offset_changes import WORDS, refuse_change
from fencepost.runtime.share_group_states import Failures
from fencepost.wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from fencepost.wire.errors import ErrorCode


def delete_share_group_offsets(
    context: RequestContext,
    request: DeleteShareGroupOffsetsRequest,
    *,
    access: Access,
    groups: GroupCoordinators,
    metadata: ClusterMetadata,
) -> DeleteShareGroupOffsetsResponse | None:
    """Have the group's coordinator decide about the topics that the client may read."""
    group_id = request.group_id
    refusal = refuse_change(access, context, metadata.image, DELETE_GROUP, group_id)
    if refusal:
        words = WORDS.get(refusal)
        return DeleteShareGroupOffsetsResponse(error_code=int(refusal), error_message=words)
    permitted, refused = [], []
    for topic in request.topics:
        if error := access.refusal(context, READ_TOPIC, topic.topic_name):
            refused.append(
                DeleteShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name, error_code=int(error), error_message=WORDS[error]
                )
            )
        else:
            permitted.append(topic.topic_name)

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        return coordinator.of_type(ShareGroups).offsets.delete(group_id, permitted, token)

    def on_reply(error: ErrorCode, reply: DeleteReply | None) -> None:
        if reply is None:
            context.reply(
                DeleteShareGroupOffsetsResponse(error_code=int(error), error_message=error.name)
            )
            return
        if not reply.response.error_code:
            reply.response.responses = [*refused, *reply.response.responses]
        if reply.message is None:
            context.reply(reply.response)
        else:
            assert groups.share_states is not None, "a broker reaches share coordinators"
            groups.share_states.delete(
                reply.message, partial(_answer, context, reply.response, reply.message)
            )

    groups.submit(group_id, decide, on_reply)
    return None


def _answer(
    context: RequestContext,
    response: DeleteShareGroupOffsetsResponse,
    message: DeleteStates,
    error: ErrorCode,
    failures: Failures,
) -> None:
    """The share coordinators have answered; the group's has noted it, unless there is an error."""
    if error:
        context.reply(
            DeleteShareGroupOffsetsResponse(error_code=int(error), error_message=error.name)
        )
        return
    failed = {topic_id: failure for (topic_id, _), failure in failures.items()}
    for topic_id, topic in message.topics.items():
        row = DeleteShareGroupOffsetsResponseTopic(topic_name=topic.name, topic_id=topic_id)
        if topic_id in failed:
            reason, words = failed[topic_id]
            row.error_code, row.error_message = int(reason), words
        response.responses.append(row)
    context.reply(response)
