"""StreamsGroupDescribe (key 89) v0-1: state, topology and members of streams groups (KIP-1071).

A group whose topology names a topic that the client may not describe is TOPIC_AUTHORIZATION_FAILED
as a whole. There is no plugin here that stores descriptions of topologies (KIP-1331): a client that
asks for them gets the status that none is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.group.streams.groups import StreamsGroups
from fencepost.machines.image.acls import ResourceType
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.group_descriptions import distinct
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import DESCRIBE_GROUP, DESCRIBE_TOPIC
from fencepost.runtime.requests.streams_groups import is_offered
from fencepost.wire.api.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Topology,
)
from fencepost.wire.errors import ErrorCode

DESCRIPTION_NOT_STORED: Final = 1
HIDDEN_TOPICS: Final = (
    "The described group uses topics that the client is not authorized to describe."
)


def streams_group_describe(
    context: RequestContext,
    request: StreamsGroupDescribeRequest,
    *,
    access: Access,
    groups: GroupCoordinators,
    metadata: ClusterMetadata,
) -> Pieces:
    """Ask the coordinator of each group that the client may describe; answer when all have
    answered."""
    if not request.group_ids:
        return StreamsGroupDescribeResponse()
    if not is_offered(groups, metadata):
        error = int(ErrorCode.UNSUPPORTED_VERSION)
        return StreamsGroupDescribeResponse(
            groups=[DescribedGroup(group_id=one, error_code=error) for one in request.group_ids]
        )
    group_ids = distinct(request.group_ids)
    answers: list[DescribedGroup | None] = [None] * len(group_ids)
    outstanding = len(group_ids)

    def ask(position: int, group_id: str) -> None:
        def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
            return coordinator.of_type(StreamsGroups).describe([group_id], token)

        def on_reply(error: ErrorCode, described: list[DescribedGroup] | None) -> None:
            nonlocal outstanding
            if described is None:
                answers[position] = DescribedGroup(group_id=group_id, error_code=int(error))
            else:
                answers[position] = _seen_by(access, context, request, described[0])
            outstanding -= 1
            if outstanding == 0:
                found = [answer for answer in answers if answer is not None]
                context.reply(StreamsGroupDescribeResponse(groups=found))

        if refusal := access.refusal(context, DESCRIBE_GROUP, group_id):
            on_reply(refusal, None)
        elif not group_id:
            on_reply(ErrorCode.INVALID_GROUP_ID, None)
        else:
            groups.submit(group_id, decide, on_reply)

    for position, group_id in enumerate(group_ids):
        ask(position, group_id)
        yield None
    return None


def _seen_by(
    access: Access,
    context: RequestContext,
    request: StreamsGroupDescribeRequest,
    group: DescribedGroup,
) -> DescribedGroup:
    """The group as the client may see it."""
    if group.error_code != ErrorCode.NONE:
        return group
    if group.topology is not None:
        names = dict.fromkeys(_topics(group.topology))
        if len(list(access.visible(context, DESCRIBE_TOPIC, names))) < len(names):
            return DescribedGroup(
                group_id=group.group_id,
                error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                error_message=HIDDEN_TOPICS,
            )
    if request.include_authorized_operations:
        group.authorized_operations = access.operations(context, ResourceType.GROUP, group.group_id)
    if request.include_topology_description:
        group.topology_description_status = DESCRIPTION_NOT_STORED
    return group


def _topics(topology: Topology) -> Iterator[str]:
    for one in topology.subtopologies or ():
        yield from one.source_topics
        yield from one.repartition_sink_topics
        for topic in (*one.repartition_source_topics, *one.state_changelog_topics):
            yield topic.name
