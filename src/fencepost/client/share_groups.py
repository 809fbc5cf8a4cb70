"""Where share groups begin to read: their start offsets (KIP-932), as conversations.

A share group's start offset in a partition is the first one that is not settled. It can be set, or
forgotten with everything that was acknowledged, while the group has no members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import BrokerError, refusal
from fencepost.client.group_offsets import error_in
from fencepost.client.leaders import by_topic
from fencepost.client.metadata import TopicPartition
from fencepost.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from fencepost.wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from fencepost.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from fencepost.wire.errors import ErrorCode


class ShareOffset(NamedTuple):
    """A share group's start offset in a partition: None before the group has read there, which then
    begins where `share.auto.offset.reset` says. `lag` is in offsets, without those that are settled
    behind the start offset; None from brokers that do not tell (KIP-1226)."""

    start_offset: int | None
    leader_epoch: int
    lag: int | None


def describing_share_offsets(
    view: ClusterView[Any], group: str, partitions: Iterable[TopicPartition] | None = None
) -> Conversation[dict[TopicPartition, ShareOffset]]:
    """The start offsets in `partitions`, or (None) in all that the group has read of.

    BrokerError, GROUP_ID_NOT_FOUND among others, of the group or of the first partition that cannot
    be described.
    """
    topics = None
    if partitions is not None:
        topics = [
            DescribeShareGroupOffsetsRequestTopic(
                topic_name=topic, partitions=[number for number, _ in numbers]
            )
            for topic, numbers in by_topic(dict.fromkeys(partitions)).items()
        ]
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
    what = f"cannot describe the offsets of share group {group}"
    response = yield from asking.request_coordinator(
        view,
        group,
        DescribeShareGroupOffsetsRequest(groups=[asked]),
        lambda answer: error_in(answer.groups),
        what=what,
    )
    found = {}
    for topic in response.groups[0].topics:
        for one in topic.partitions:
            where = TopicPartition(topic.topic_name, one.partition_index)
            _raise_for(one, what, *where)
            start = one.start_offset if one.start_offset >= 0 else None
            lag = one.lag if one.lag >= 0 else None
            found[where] = ShareOffset(start, one.leader_epoch, lag)
    return dict(sorted(found.items()))


def altering_share_offsets(
    view: ClusterView[Any], group: str, offsets: Mapping[TopicPartition, int]
) -> Conversation[None]:
    """Set a share group's start offsets while it has no members; a group that does not exist is
    made. BrokerError NON_EMPTY_GROUP and so on, of the group or of the first partition refused."""
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=topic,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
                for number, offset in numbers
            ],
        )
        for topic, numbers in by_topic(offsets).items()
    ]
    what = f"cannot set the offsets of share group {group}"
    response = yield from asking.request_coordinator(
        view,
        group,
        AlterShareGroupOffsetsRequest(group_id=group, topics=topics),
        lambda answer: answer.error_code,
        what=what,
    )
    for topic in response.responses:
        for one in topic.partitions:
            _raise_for(one, what, topic.topic_name, one.partition_index)


def deleting_share_offsets(
    view: ClusterView[Any], group: str, topics: Iterable[str]
) -> Conversation[None]:
    """Have a share group without members forget these topics, with what it has acknowledged there.
    BrokerError NON_EMPTY_GROUP and so on, of the group or of the first topic refused."""
    what = f"cannot delete offsets of share group {group}"
    wanted = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
    response = yield from asking.request_coordinator(
        view,
        group,
        DeleteShareGroupOffsetsRequest(group_id=group, topics=wanted),
        lambda answer: answer.error_code,
        what=what,
    )
    for one in response.responses:
        _raise_for(one, what, one.topic_name)


def _raise_for(entry: Any, what: str, topic: str, partition: int | None = None) -> None:
    if entry.error_code != ErrorCode.NONE:
        text = entry.error_message or refusal(entry.error_code)
        raise BrokerError.of(entry.error_code, f"{what}: {text}", topic=topic, partition=partition)
