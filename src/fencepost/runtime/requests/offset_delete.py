"""OffsetDelete (key 47) v0: forget positions in topics that the group does not read (KIP-496).

A topic that the client may not read is TOPIC_AUTHORIZATION_FAILED, whether it exists or not.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.image import ClusterImage
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import DELETE_GROUP, READ_TOPIC
from fencepost.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from fencepost.wire.errors import ErrorCode


def offset_delete(
    context: RequestContext,
    request: OffsetDeleteRequest,
    *,
    access: Access,
    groups: GroupCoordinators,
    metadata: ClusterMetadata,
) -> OffsetDeleteResponse | None:
    """Refuse partitions that do not exist or are not for the client; have the coordinator decide
    about the rest."""
    if refusal := access.refusal(context, DELETE_GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=int(refusal))
    if not request.group_id:
        return OffsetDeleteResponse(error_code=int(ErrorCode.INVALID_GROUP_ID))
    refusals = [access.refusal(context, READ_TOPIC, topic.name) for topic in request.topics]
    asked, refused = _split(metadata.image, request.topics, refusals)
    request.topics = asked

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        return coordinator.decide_offset_delete(request, token)

    def on_reply(error: ErrorCode, response: OffsetDeleteResponse | None) -> None:
        if response is None:
            response = OffsetDeleteResponse(error_code=int(error))
        elif response.error_code == ErrorCode.NONE:
            _merge(response, refused)
        context.reply(response)

    groups.submit(request.group_id, decide, on_reply)
    return None


def _split(
    image: ClusterImage, topics: list[OffsetDeleteRequestTopic], refusals: list[ErrorCode]
) -> tuple[list[OffsetDeleteRequestTopic], list[OffsetDeleteResponseTopic]]:
    """What exists and is for the client, and the answers for the rest."""
    asked, refused = [], []
    for topic, refusal in zip(topics, refusals, strict=True):
        known = None if refusal else image.topics_by_name.get(topic.name)
        count = 0 if known is None else len(known.partitions)
        there = [one for one in topic.partitions if 0 <= one.partition_index < count]
        missing = [one for one in topic.partitions if not 0 <= one.partition_index < count]
        if there:
            asked.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
        if missing:
            answers = [
                OffsetDeleteResponsePartition(
                    partition_index=one.partition_index,
                    error_code=int(refusal or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                )
                for one in missing
            ]
            refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
    return asked, refused


def _merge(response: OffsetDeleteResponse, refused: list[OffsetDeleteResponseTopic]) -> None:
    """Put the refused partitions to the others of their topics."""
    by_name = {topic.name: topic for topic in response.topics}
    for topic in refused:
        present = by_name.get(topic.name)
        if present is None:
            response.topics.append(topic)
        else:
            present.partitions += topic.partitions
