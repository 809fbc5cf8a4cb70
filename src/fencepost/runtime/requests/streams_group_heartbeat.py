"""StreamsGroupHeartbeat (key 88) v0-1: all that a member of a streams group says (KIP-1071).

Checked here, before the group's coordinator hears of it, are in this order: whether the cluster
offers the protocol; the right to read the group; the topics that a topology names, which must not
be internal ones of Kafka, must be names that topics can have, and which the client must be allowed
to describe; and what a request has to have by itself (`streams.refusals`).

Internal topics that the topology needs and that are missing are created with the client's right to
create topics, in the cluster or each of them. The answer does not wait for that. It says which are
missing, and why, as far as the controller has refused to create them within the last two heartbeat
intervals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from fencepost.log.names import is_valid_topic
from fencepost.machines.group.caller import Caller
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.refused import RefusedError
from fencepost.machines.group.shard import Decision
from fencepost.machines.group.streams.answers import HeartbeatReply
from fencepost.machines.group.streams.configuring import MISSING_INTERNAL_TOPICS, creatable
from fencepost.machines.group.streams.groups import StreamsGroups
from fencepost.machines.group.streams.refusals import (
    check_request,
    refuse,
    refused,
)
from fencepost.machines.group.streams.topology import topics_named
from fencepost.runtime.clock import Clocks
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.internal_topics import INTERNAL_TOPICS
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata, StreamsTopicCreation
from fencepost.runtime.requests.permissions import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_TOPIC,
    READ_GROUP,
)
from fencepost.runtime.requests.streams_groups import is_offered
from fencepost.wire.api.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from fencepost.wire.errors import ErrorCode

ERRORS_NAMED_MAX: Final = 3
INTERVALS_KEPT: Final = 2
"""For so many heartbeat intervals it is kept why an internal topic could not be created."""


class _Parts(NamedTuple):
    """What the request is decided with."""

    access: Access
    groups: GroupCoordinators
    metadata: ClusterMetadata
    topics: StreamsTopicCreation


def streams_group_heartbeat(
    context: RequestContext,
    request: StreamsGroupHeartbeatRequest,
    *,
    access: Access,
    clocks: Clocks,
    groups: GroupCoordinators,
    metadata: ClusterMetadata,
    topics: StreamsTopicCreation,
) -> StreamsGroupHeartbeatResponse | None:
    """Have the group's coordinator decide."""
    parts = _Parts(access, groups, metadata, topics)
    try:
        _check(parts, context, request)
    except RefusedError as error:
        return refused(error)

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        caller = Caller(
            token,
            context.api_version,
            context.client_id or "",
            f"/{context.client_host}",  # as Kafka writes addresses, in records too
        )
        streams = coordinator.of_type(StreamsGroups)
        return streams.heartbeat(request, caller, clocks.wall_ms())

    def on_reply(error: ErrorCode, reply: HeartbeatReply | None) -> None:
        if reply is None:
            context.reply(refused(RefusedError(error)))
            return
        if reply.to_create:
            _create_topics(parts, context, reply)
        context.reply(reply.response)

    groups.submit(request.group_id, decide, on_reply)
    return None


def _check(parts: _Parts, context: RequestContext, request: StreamsGroupHeartbeatRequest) -> None:
    """What needs no group, in Kafka's order. RefusedError."""
    if not is_offered(parts.groups, parts.metadata):
        refuse(ErrorCode.UNSUPPORTED_VERSION)
    if error := parts.access.refusal(context, READ_GROUP, request.group_id):
        refuse(error)
    if request.topology is not None:
        _check_topics(parts.access, context, topics_named(request.topology))
    check_request(request)


def _check_topics(access: Access, context: RequestContext, names: Iterable[str]) -> None:
    internal = [name for name in names if name in INTERNAL_TOPICS]
    if internal:
        refuse(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is"
            " prohibited.",
        )
    invalid = [name for name in names if not is_valid_topic(name)]
    if invalid:
        refuse(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Topic names {','.join(invalid)} are not valid topic names.",
        )
    for name in names:
        if error := access.refusal(context, DESCRIBE_TOPIC, name):
            refuse(error)


def _create_topics(parts: _Parts, context: RequestContext, reply: HeartbeatReply) -> None:
    """Have missing internal topics created, if the client may; the answer says what hinders it."""
    access, response = parts.access, reply.response
    names = [topic.name for topic in reply.to_create]
    if access.allows(context, CREATE_CLUSTER, quiet=True):
        denied = []
    else:
        denied = [name for name in names if not access.allows(context, CREATE_TOPIC, name)]
    if denied:
        _tell(response, f"; Unauthorized to CREATE on topics {', '.join(denied)}.")
        return
    kept_ms = response.heartbeat_interval_ms * INTERVALS_KEPT
    parts.topics.create([creatable(topic) for topic in reply.to_create], kept_ms)
    errors = parts.topics.errors_of(names)
    if errors:
        named = ", ".join(f"{n} ({error})" for n, error in list(errors.items())[:ERRORS_NAMED_MAX])
        more = len(errors) - ERRORS_NAMED_MAX
        _tell(response, f"; Creation failed: {named}{f' and {more} more' if more > 0 else ''}.")


def _tell(response: StreamsGroupHeartbeatResponse, what: str) -> None:
    for status in response.status or ():
        if status.status_code == MISSING_INTERNAL_TOPICS:
            status.status_detail += what
