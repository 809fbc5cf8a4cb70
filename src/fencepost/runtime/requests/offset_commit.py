"""OffsetCommit (key 8) v2-10: keep a group's positions.

Topics that the client may not read are refused here, per partition, and then what does not exist:
UNKNOWN_TOPIC_OR_PARTITION, from v10 on, where topics go by their ids, UNKNOWN_TOPIC_ID for an id
without a topic, which is the answer to every client that may read the group. Refused is also text
that is not UTF-8, which could not be kept as it is: a group id is INVALID_GROUP_ID, metadata
INVALID_REQUEST. The coordinator decides about the rest. A committed offset names the topic's id, so
that a later topic of the same name does not inherit it.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.image import ClusterImage, TopicImage
from fencepost.runtime.clock import Clocks
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import READ_GROUP, READ_TOPIC
from fencepost.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import ReplacedText

TOPIC_IDS_FROM: Final = 10


def offset_commit(
    context: RequestContext,
    request: OffsetCommitRequest,
    *,
    access: Access,
    clocks: Clocks,
    groups: GroupCoordinators,
    metadata: ClusterMetadata,
) -> OffsetCommitResponse | None:
    """Refuse what does not exist or is not for the client; have the coordinator decide about the
    rest."""
    answers = _Answers(request)
    refusal = access.refusal(context, READ_GROUP, request.group_id)
    if not refusal and isinstance(request.group_id, ReplacedText):
        refusal = ErrorCode.INVALID_GROUP_ID
    if refusal:
        answers.refuse_all(refusal)
        return answers.response()
    asked = [
        topic
        for position, topic in enumerate(request.topics)
        if _resolve(access, context, metadata.image, position, topic, answers)
    ]
    if not asked:
        return answers.response()
    request.topics = asked

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        version, wall_ms = context.api_version, clocks.wall_ms()
        return coordinator.decide_offset_commit(request, version, token, wall_ms)

    def on_reply(error: ErrorCode, response: OffsetCommitResponse | None) -> None:
        if response is None:
            answers.refuse_rest(error)
        else:
            answers.merge(response)
        context.reply(answers.response())

    groups.submit(request.group_id, decide, on_reply)
    return None


class _Answers:
    """The response as it fills, in the order of the request."""

    def __init__(self, request: OffsetCommitRequest) -> None:
        self._topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        self._open: list[OffsetCommitResponsePartition] = []

    def refuse_all(self, error: ErrorCode) -> None:
        """Answer every partition."""
        for topic in self._topics:
            for answer in topic.partitions:
                answer.error_code = int(error)

    def refuse(self, position: int, index: int, error: ErrorCode) -> None:
        """Answer one partition (by its place) of the topic at `position`."""
        self._topics[position].partitions[index].error_code = int(error)

    def leave_open(self, position: int, index: int) -> None:
        """The coordinator answers this one."""
        self._open.append(self._topics[position].partitions[index])

    def refuse_rest(self, error: ErrorCode) -> None:
        """The coordinator has refused all that was left open."""
        for answer in self._open:
            answer.error_code = int(error)

    def merge(self, response: OffsetCommitResponse) -> None:
        """Take over the coordinator's answers, which come in the order they were left open."""
        given = [one for topic in response.topics for one in topic.partitions]
        for answer, one in zip(self._open, given, strict=True):
            answer.error_code = one.error_code

    def response(self) -> OffsetCommitResponse:
        """The answer to the request."""
        return OffsetCommitResponse(topics=self._topics)


def _resolve(
    access: Access,
    context: RequestContext,
    image: ClusterImage,
    position: int,
    topic: OffsetCommitRequestTopic,
    answers: _Answers,
) -> bool:
    """Fill in the topic's name and id, drop partitions that are refused; whether any is left."""
    known: TopicImage | None
    by_id = context.api_version >= TOPIC_IDS_FROM
    if by_id:
        known, unknown = image.topics_by_id.get(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        known, unknown = image.topics_by_name.get(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refusal = ErrorCode.NONE
    if known is not None or not by_id:
        refusal = access.refusal(context, READ_TOPIC, topic.name if known is None else known.name)
    existing = []
    for index, partition in enumerate(topic.partitions):
        if refusal:
            answers.refuse(position, index, refusal)
        elif isinstance(partition.committed_metadata, ReplacedText):
            answers.refuse(position, index, ErrorCode.INVALID_REQUEST)
        elif known is None:
            answers.refuse(position, index, unknown)
        elif not 0 <= partition.partition_index < len(known.partitions):
            answers.refuse(position, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            answers.leave_open(position, index)
            existing.append(partition)
    if known is not None:
        topic.name, topic.topic_id = known.name, known.topic_id
    topic.partitions = existing
    return bool(existing)
