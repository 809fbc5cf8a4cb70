"""DescribeShareGroupOffsets (key 90) v0-1: where share groups are (KIP-932, KIP-1226).

Per group: the cluster has no share groups: 35; no right to describe it: 30. Where topics are named,
the share coordinators are asked whatever the group is, as in Kafka: a partition without a state, or
a topic that does not exist, has offset -1; a topic that the client may not describe has 29. Without
names the group's coordinator says which partitions have a state; hidden topics are left out.
A partition that the topic does not have is not asked about (Kafka asks until it gives up), and one
that is named several times is asked about once.

The lag is what is between the start offset and the end of the partition and is not settled, where
both are known and it is a number of 64 bits; otherwise -1. What a share coordinator refuses is
offset -1, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.group.share.assignor import Partitions
from fencepost.machines.group.share.groups import ShareGroups
from fencepost.machines.image import ClusterImage
from fencepost.machines.share.state_batch import (
    NO_START_OFFSET,
    UNKNOWN_COMPLETE_COUNT,
    SharePartitionKey,
)
from fencepost.runtime.end_offsets import EndOffsets, Ends
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import DESCRIBE_GROUP, DESCRIBE_TOPIC
from fencepost.runtime.requests.share_group_heartbeat import has_share_groups
from fencepost.runtime.share_persister import SharePersister
from fencepost.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

UNKNOWN_LAG: Final = -1
LAG_MAX: Final = (1 << 63) - 1
TOPIC_REFUSED: Final = "Topic authorization failed."

OnDescribed = Callable[[DescribeShareGroupOffsetsResponseGroup], None]
_Row = DescribeShareGroupOffsetsResponsePartition
_Topic = DescribeShareGroupOffsetsResponseTopic


def describe_share_group_offsets(
    context: RequestContext,
    request: DescribeShareGroupOffsetsRequest,
    *,
    access: Access,
    groups: GroupCoordinators,
    metadata: ClusterMetadata,
    persister: SharePersister,
    ends: EndOffsets,
) -> Pieces:
    """Ask about each group that the client may describe; answer when all is known."""
    if not request.groups:
        return DescribeShareGroupOffsetsResponse()
    image = metadata.image
    is_on = has_share_groups(image)
    answers = [
        DescribeShareGroupOffsetsResponseGroup(group_id=one.group_id) for one in request.groups
    ]
    outstanding = len(answers)

    def described(position: int, answer: DescribeShareGroupOffsetsResponseGroup) -> None:
        nonlocal outstanding
        answers[position] = answer
        outstanding -= 1
        if not outstanding:
            context.reply(DescribeShareGroupOffsetsResponse(groups=answers))

    for position, asked in enumerate(request.groups):
        refusal = ErrorCode.UNSUPPORTED_VERSION
        if is_on:
            refusal = access.refusal(context, DESCRIBE_GROUP, asked.group_id)
        if refusal:
            answers[position].error_code = int(refusal)
            described(position, answers[position])
        else:
            question = _Question(
                context, access, image, persister, ends, partial(described, position)
            )
            if asked.topics is None:
                question.ask_all(groups, asked.group_id)
            else:
                question.ask_some(asked)
        yield None
    return None


class _Question:
    """What is asked about one group."""

    def __init__(
        self,
        context: RequestContext,
        access: Access,
        image: ClusterImage,
        persister: SharePersister,
        ends: EndOffsets,
        on_described: OnDescribed,
    ) -> None:
        self._context = context
        self._access = access
        self._image = image
        self._persister = persister
        self._ends = ends
        self._on_described = on_described

    def ask_all(self, groups: GroupCoordinators, group_id: str) -> None:
        """About all partitions with a state, as the group's coordinator knows them."""

        def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
            return coordinator.of_type(ShareGroups).offsets.initialized_partitions(group_id, token)

        def on_reply(error: ErrorCode, found: Partitions | None) -> None:
            answer = DescribeShareGroupOffsetsResponseGroup(group_id=group_id)
            if found is None:
                answer.error_code = int(error)
                self._on_described(answer)
                return
            named = {
                topic.name: (topic_id, sorted(indexes))
                for topic_id, indexes in found.items()
                if (topic := self._image.topics_by_id.get(topic_id)) is not None
            }
            for name in self._access.visible(self._context, DESCRIBE_TOPIC, named):
                topic_id, indexes = named[name]
                rows = [_Row(partition_index=one) for one in indexes]
                answer.topics.append(_Topic(topic_name=name, topic_id=topic_id, partitions=rows))
            self._fill_in(answer, list(answer.topics))

        groups.submit(group_id, decide, on_reply)

    def ask_some(self, asked: DescribeShareGroupOffsetsRequestGroup) -> None:
        """About the partitions that the request names."""
        answer = DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id)
        known, unknown, hidden = [], [], []
        for topic in asked.topics or ():
            if self._access.refusal(self._context, DESCRIBE_TOPIC, topic.topic_name):
                hidden.append(_hidden(topic))
                continue
            rows = [_Row(partition_index=one, start_offset=-1) for one in topic.partitions]
            found = self._image.topics_by_name.get(topic.topic_name)
            row = _Topic(topic_name=topic.topic_name, partitions=rows)
            if found is None:
                unknown.append(row)
            else:
                row.topic_id = found.topic_id
                known.append(row)
        answer.topics = [*known, *unknown, *hidden]
        self._fill_in(answer, known)

    def _fill_in(
        self, answer: DescribeShareGroupOffsetsResponseGroup, topics: list[_Topic]
    ) -> None:
        """Ask share coordinators about the rows of these topics, and then leaders for the ends."""
        counts: dict[tuple[str, int], int] = {}
        outstanding = 1  # they may answer at once

        def one_less() -> None:
            nonlocal outstanding
            outstanding -= 1
            if not outstanding:
                self._ends.ask(list(counts), partial(self._count_lag, answer, counts))

        def summarized(
            name: str,
            rows: list[_Row],
            error: ErrorCode,
            message: str | None,
            start_offset: int,
            leader_epoch: int,
            complete_count: int,
        ) -> None:
            if error is ErrorCode.NONE:
                for row in rows:
                    row.start_offset, row.leader_epoch = start_offset, leader_epoch
                if start_offset != NO_START_OFFSET and complete_count != UNKNOWN_COMPLETE_COUNT:
                    counts[name, rows[0].partition_index] = complete_count
            one_less()

        asked: dict[tuple[str, int], list[_Row]] = {}
        for topic in topics:
            partition_count = len(self._image.topics_by_name[topic.topic_name].partitions)
            for row in topic.partitions:
                row.start_offset = NO_START_OFFSET
                if 0 <= row.partition_index < partition_count:
                    asked.setdefault((topic.topic_name, row.partition_index), []).append(row)
        outstanding += len(asked)
        for (name, index), rows in asked.items():
            topic_id = self._image.topics_by_name[name].topic_id
            key = SharePartitionKey(answer.group_id, topic_id, index)
            self._persister.summary(key, 0, partial(summarized, name, rows))
        one_less()

    def _count_lag(
        self,
        answer: DescribeShareGroupOffsetsResponseGroup,
        counts: dict[tuple[str, int], int],
        ends: Ends,
    ) -> None:
        for topic in answer.topics:
            for row in topic.partitions:
                complete_count = counts.get((topic.topic_name, row.partition_index))
                if complete_count is None:
                    continue
                error, end_offset = ends[topic.topic_name, row.partition_index]
                if error is ErrorCode.NONE:
                    lag = end_offset - row.start_offset - complete_count
                    row.lag = lag if abs(lag) <= LAG_MAX else UNKNOWN_LAG
                else:
                    row.error_code, row.error_message = int(error), error.name
                    row.start_offset = row.leader_epoch = 0
        self._on_described(answer)


def _hidden(topic: DescribeShareGroupOffsetsRequestTopic) -> _Topic:
    rows = [
        _Row(
            partition_index=index,
            start_offset=NO_START_OFFSET,
            lag=UNKNOWN_LAG,
            error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            error_message=TOPIC_REFUSED,
        )
        for index in topic.partitions
    ]
    return _Topic(topic_name=topic.topic_name, topic_id=Uuid.ZERO, partitions=rows)
