"""Committed offsets in few words, with the epochs of members."""

from __future__ import annotations

from typing import Any

from fencepost.wire.api.delete_groups import DeleteGroupsRequest
from fencepost.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fencepost.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

from .stage import Stage


def commit(
    stage: Stage,
    group: str,
    topic: str,
    *partitions: int,
    member: str = "",
    epoch: int = -1,
    offset: int = 5,
    version: int = 9,
    error: int | None = 0,
    instance_id: str | None = None,
) -> Any:
    """OffsetCommit of this offset for each of the partitions (0 if none is named)."""
    named: dict[str, Any] = (
        {"topic_id": stage.topic_id(topic)} if version >= 10 else {"name": topic}
    )
    rows = [
        OffsetCommitRequestPartition(
            partition_index=number, committed_offset=offset, committed_metadata=""
        )
        for number in partitions or (0,)
    ]
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        group_instance_id=instance_id,
        topics=[OffsetCommitRequestTopic(partitions=rows, **named)],
    )
    return stage.ask(request, version, error=error)


def fetch_offsets(
    stage: Stage,
    group: str,
    topic: str | None = None,
    *partitions: int,
    member: str | None = None,
    epoch: int = -1,
    version: int = 9,
    error: int | None = 0,
) -> Any:
    """OffsetFetch of these partitions, or of all that the group has."""
    topics = None
    if topic is not None:
        named: dict[str, Any] = (
            {"topic_id": stage.topic_id(topic)} if version >= 10 else {"name": topic}
        )
        topics = [OffsetFetchRequestTopics(partition_indexes=list(partitions) or [0], **named)]
    wanted = OffsetFetchRequestGroup(
        group_id=group, member_id=member, member_epoch=epoch, topics=topics
    )
    return stage.ask(OffsetFetchRequest(groups=[wanted]), version, error=error)


def delete_offsets(
    stage: Stage, group: str, topic: str, *partitions: int, error: int | None = 0
) -> Any:
    rows = [OffsetDeleteRequestPartition(partition_index=number) for number in partitions or (0,)]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=rows)]
    return stage.ask(OffsetDeleteRequest(group_id=group, topics=topics), 0, error=error)


def delete_groups(stage: Stage, *groups: str, version: int = 3, error: int | None = 0) -> Any:
    return stage.ask(DeleteGroupsRequest(groups_names=list(groups)), version, error=error)
