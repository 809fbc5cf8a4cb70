"""OffsetFetch (key 9) v1-10: the positions of groups.

One group up to v7, several from v8 on, each perhaps with another coordinator; from v10 on topics go
by their ids, and an id without a topic is answered UNKNOWN_TOPIC_ID in each of its partitions. No
topics at all (null, from v2 on) means all that the group has offsets for, but for topics that the
client may not describe. Named ones of those are TOPIC_AUTHORIZATION_FAILED, known or not. In v1 the
error of a group is in each partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.image import ClusterImage
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import DESCRIBE_GROUP, DESCRIBE_TOPIC
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

PARTITIONS_PER_PIECE: Final = 500
TOP_LEVEL_ERROR_FROM: Final = 2
GROUPS_FROM: Final = 8
TOPIC_IDS_FROM: Final = 10

# Consumers older than 3.9 retry after NOT_COORDINATOR, but not after COORDINATOR_NOT_AVAILABLE.
_FOR_CLIENTS: Final = {ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_COORDINATOR}


def offset_fetch(
    context: RequestContext,
    request: OffsetFetchRequest,
    *,
    access: Access,
    coordinators: GroupCoordinators,
    metadata: ClusterMetadata,
) -> Pieces:
    """Ask each group's coordinator, some partitions at a time; answer when all have answered."""
    groups = request.groups if context.api_version >= GROUPS_FROM else [_as_group(request)]
    job = _FetchJob(access, coordinators, metadata, context, groups)
    for position, group in enumerate(groups):
        if refusal := access.refusal(context, DESCRIBE_GROUP, group.group_id):
            job.refuse(position, refusal)
            yield None
            continue
        for part in _parts_of(group):
            job.ask(position, part, request.require_stable)
            yield None
    job.finish_one()
    return None


def _parts_of(group: OffsetFetchRequestGroup) -> Iterator[OffsetFetchRequestGroup]:
    """The group with so many partitions at a time; a topic with more of them has parts alone."""
    if group.topics is None:
        yield group
        return
    topics: list[OffsetFetchRequestTopics] = []
    room = PARTITIONS_PER_PIECE
    for topic in group.topics:
        indexes = topic.partition_indexes
        if topics and room <= len(indexes):
            yield _part(group, topics)
            topics, room = [], PARTITIONS_PER_PIECE
        if len(indexes) <= PARTITIONS_PER_PIECE:
            topics.append(topic)
            room -= 1 + len(indexes)
            continue
        for start in range(0, len(indexes), PARTITIONS_PER_PIECE):
            some = OffsetFetchRequestTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_indexes=indexes[start : start + PARTITIONS_PER_PIECE],
            )
            yield _part(group, [some])
    if topics or not group.topics:
        yield _part(group, topics)


def _part(
    group: OffsetFetchRequestGroup, topics: list[OffsetFetchRequestTopics]
) -> OffsetFetchRequestGroup:
    """What the same member asks about some of the topics."""
    return OffsetFetchRequestGroup(
        group_id=group.group_id,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        topics=topics,
    )


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """A request of before v8 in the form of a later one."""
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ],
    )


class _FetchJob:
    """One request: its groups' answers as they come."""

    def __init__(
        self,
        access: Access,
        coordinators: GroupCoordinators,
        metadata: ClusterMetadata,
        context: RequestContext,
        groups: list[OffsetFetchRequestGroup],
    ) -> None:
        self._access = access
        self._coordinators = coordinators
        self._metadata = metadata
        self._context = context
        self._groups = groups
        self._answers: list[OffsetFetchResponseGroup | None] = [None] * len(groups)
        self._by_id = context.api_version >= TOPIC_IDS_FROM
        self._outstanding = 1  # the handler itself, until it has asked about all parts

    def ask(self, position: int, part: OffsetFetchRequestGroup, require_stable: bool) -> None:
        """Have the group's coordinator look up these offsets of it."""
        refused: list[OffsetFetchResponseTopics] = []
        shows_all = part.topics is None
        if not shows_all:
            part, refused = self._resolve(part)

        def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
            return coordinator.decide_offset_fetch(part, require_stable, token)

        def on_reply(error: ErrorCode, answer: OffsetFetchResponseGroup | None) -> None:
            if answer is None:
                self.refuse(position, _FOR_CLIENTS.get(error, error))
            else:
                if shows_all:
                    answer.topics = [one for one in answer.topics if self._may_see(one.name)]
                if not answer.error_code:
                    answer.topics += refused
                if self._by_id:
                    _name_by_id(self._metadata.image, answer)
                self._add(position, answer)
            self.finish_one()

        self._outstanding += 1
        self._coordinators.submit(part.group_id, decide, on_reply)

    def _may_see(self, topic: str) -> bool:
        return self._access.allows(self._context, DESCRIBE_TOPIC, topic, quiet=True)

    def _resolve(
        self, part: OffsetFetchRequestGroup
    ) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
        """The topics to look up, all with their names, and the answers about the others."""
        wanted, refused = [], []
        for topic in part.topics or ():
            if self._by_id:
                found = self._metadata.image.topics_by_id.get(topic.topic_id)
                if found is None:
                    refused.append(_no_offsets(topic, ErrorCode.UNKNOWN_TOPIC_ID))
                    continue
                topic.name = found.name
            if refusal := self._access.refusal(self._context, DESCRIBE_TOPIC, topic.name):
                refused.append(_no_offsets(topic, refusal))
            else:
                wanted.append(topic)
        return _part(part, wanted), refused

    def _add(self, position: int, answer: OffsetFetchResponseGroup) -> None:
        """Add the answer to a part of the group; a topic may go on in it."""
        before = self._answers[position]
        if before is None:
            self._answers[position] = answer
        elif not before.error_code and answer.topics:
            last, first = before.topics[-1:], answer.topics[0]
            if last and (last[0].name, last[0].topic_id) == (first.name, first.topic_id):
                last[0].partitions += first.partitions
                del answer.topics[0]
            before.topics += answer.topics

    def finish_one(self) -> None:
        """A part, or the handler, is done; the last of them answers the request."""
        self._outstanding -= 1
        if self._outstanding == 0:
            self._context.reply(self._response())

    def refuse(self, position: int, error: ErrorCode) -> None:
        """A part's error is that of the whole group, and the first one counts."""
        group, before = self._groups[position], self._answers[position]
        if before is None or not before.error_code:
            answer = OffsetFetchResponseGroup(group_id=group.group_id, error_code=int(error))
            if self._context.api_version < TOP_LEVEL_ERROR_FROM:
                answer.topics = [_no_offsets(topic, error) for topic in group.topics or ()]
            self._answers[position] = answer

    def _response(self) -> OffsetFetchResponse:
        answers = [answer for answer in self._answers if answer is not None]
        if self._context.api_version >= GROUPS_FROM:
            return OffsetFetchResponse(groups=answers)
        (answer,) = answers
        return OffsetFetchResponse(
            error_code=answer.error_code,
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=one.partition_index,
                            committed_offset=one.committed_offset,
                            committed_leader_epoch=one.committed_leader_epoch,
                            metadata=one.metadata,
                            error_code=one.error_code,
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in answer.topics
            ],
        )


def _name_by_id(image: ClusterImage, answer: OffsetFetchResponseGroup) -> None:
    """Give every topic its id; a topic that was deleted has none, and is left out."""
    named = []
    for topic in answer.topics:
        if topic.topic_id == Uuid.ZERO:
            found = image.topics_by_name.get(topic.name)
            if found is None:
                continue
            topic.topic_id = found.topic_id
        named.append(topic)
    answer.topics = named


def _no_offsets(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=-1,
                committed_leader_epoch=-1,
                metadata="",
                error_code=int(error),
            )
            for index in topic.partition_indexes
        ],
    )
