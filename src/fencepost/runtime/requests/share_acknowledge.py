"""ShareAcknowledge (key 79) v1-2: a share consumer says what became of records it has acquired.

After the checks of `share_checks` the session is looked for: epoch 0 is 123, since only a fetch
opens one, -1 closes it: then the acknowledgements are taken, what the member still holds becomes
available, and the answer follows when both are stored.
"""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.machines.share.inputs import AcknowledgeResult
from fencepost.machines.share.sessions import (
    CLOSING_EPOCH,
    OPENING_EPOCH,
    ShareSession,
    ShareSessionKey,
    TopicPartition,
)
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.share_checks import Acknowledgements, Leaders, ShareParts, refusal
from fencepost.wire.api.share_acknowledge import (
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from fencepost.wire.errors import ErrorCode


def share_acknowledge(
    context: RequestContext, request: ShareAcknowledgeRequest, *, parts: ShareParts
) -> Pieces:
    """Take the acknowledgements, and answer when they are stored."""
    error = refusal(parts, context, request)
    session = error or _session(parts, request)
    if isinstance(session, ErrorCode):
        return ShareAcknowledgeResponse(error_code=int(session))
    acknowledgements = Acknowledgements(parts, context, request)
    yield from acknowledgements.begin(
        [
            ((topic.topic_id, one.partition_index), one.acknowledgement_batches)
            for topic in request.topics
            for one in topic.partitions
        ]
    )

    def answer() -> None:
        if not context.answered:
            context.reply(_response(parts, context, request, acknowledgements.results.items()))

    def end_or_answer() -> None:
        if request.share_session_epoch == CLOSING_EPOCH:
            parts.sessions.end_session(session, answer)
        else:
            answer()

    acknowledgements.when_done(end_or_answer)
    return None


def _session(parts: ShareParts, request: ShareAcknowledgeRequest) -> ShareSession | ErrorCode:
    if request.share_session_epoch == OPENING_EPOCH:
        return ErrorCode.INVALID_SHARE_SESSION_EPOCH
    key = ShareSessionKey(request.group_id or "", request.member_id or "")
    return parts.sessions.sessions.continue_session(key, request.share_session_epoch)


def _response(
    parts: ShareParts,
    context: RequestContext,
    request: ShareAcknowledgeRequest,
    results: Iterable[tuple[TopicPartition, AcknowledgeResult]],
) -> ShareAcknowledgeResponse:
    settings = parts.sessions.partitions.settings_of(request.group_id or "")
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=settings.record_lock_duration_ms
    )
    leaders = Leaders(parts, context)
    topics: dict[object, ShareAcknowledgeTopicResponse] = {}
    for partition, (error, message) in results:
        topic_id, index = partition
        if topic_id not in topics:
            topics[topic_id] = ShareAcknowledgeTopicResponse(topic_id=topic_id)
        row = PartitionData(partition_index=index, error_code=int(error), error_message=message)
        leaders.name_leader(row.current_leader, partition, error)
        topics[topic_id].partitions.append(row)
    response.responses = list(topics.values())
    response.node_endpoints = leaders.endpoints(NodeEndpoint)
    return response
