"""ConsumerGroupHeartbeat (key 68) v0-1: all that a member of a consumer group says (KIP-848).

Checked here, before the group's coordinator hears of it, are in this order: whether the cluster
offers the protocol, the right to read the group, the right to describe each topic that is named,
and what a request of its kind has to have. The first request of a member says everything.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.consumer.groups import ConsumerGroups
from fencepost.machines.group.consumer.member import JOINS, LEAVES, LEAVES_FOR_A_WHILE
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.session import Principal
from fencepost.runtime.clock import Clocks
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import DESCRIBE_TOPIC, READ_GROUP
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from fencepost.wire.errors import ErrorCode

CONSUMER_PROTOCOL: Final = "consumer"
GROUP_VERSION: Final = "group.version"
MEMBER_IDS_FROM: Final = 1
"""Version from which on members make up their ids (KIP-1082)."""


class _Member(NamedTuple):
    """The client, for what is decided about its rights when the request is long answered."""

    principal: Principal
    client_host: str
    listener_name: str
    api_name: str


def consumer_group_heartbeat(
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
    *,
    access: Access,
    clocks: Clocks,
    groups: GroupCoordinators,
    metadata: ClusterMetadata,
) -> ConsumerGroupHeartbeatResponse | None:
    """Have the group's coordinator decide."""
    if not is_offered(groups, metadata):
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    if refusal := access.refusal(context, READ_GROUP, request.group_id):
        return _refused(refusal)
    for topic in request.subscribed_topic_names or ():
        if refusal := access.refusal(context, DESCRIBE_TOPIC, topic):
            return _refused(refusal)
    if mistake := _mistake(context, request):
        return _refused(ErrorCode.INVALID_REQUEST, mistake)
    member = _Member(
        context.principal, context.client_host, context.listener_name, context.api_name
    )
    suffix = "" if request.member_id else groups.new_member_suffix()

    def may_describe(topic: str) -> bool:
        return access.allows(member, DESCRIBE_TOPIC, topic, quiet=True)

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        caller = Caller(
            token,
            context.api_version,
            context.client_id or "",
            f"/{member.client_host}",  # as Kafka writes addresses, in records too
            suffix,
        )
        consumer_groups = coordinator.of_type(ConsumerGroups)
        return consumer_groups.heartbeat(request, caller, may_describe, clocks.wall_ms())

    def on_reply(error: ErrorCode, response: ConsumerGroupHeartbeatResponse | None) -> None:
        context.reply(_refused(error) if response is None else response)

    groups.submit(request.group_id, decide, on_reply)
    return None


def is_offered(groups: GroupCoordinators, metadata: ClusterMetadata) -> bool:
    """Whether the cluster has consumer groups, and this broker serves them."""
    level = metadata.image.features.get(GROUP_VERSION, 0)
    return level >= 1 and CONSUMER_PROTOCOL in groups.rebalance_protocols


def _mistake(context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> str | None:
    """What is wrong with the request by itself, in Kafka's order and words; None if nothing is."""
    epoch = request.member_epoch
    needs_id = context.api_version >= MEMBER_IDS_FROM or epoch > JOINS or epoch == LEAVES
    if needs_id and not request.member_id.strip():
        return "MemberId can't be empty."
    for name, text in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if text is not None and not text.strip():
            return f"{name} can't be empty."
    if epoch == JOINS:
        return _mistake_in_joining(request)
    if epoch == LEAVES_FOR_A_WHILE and request.instance_id is None:
        return "InstanceId can't be null."
    if epoch < LEAVES_FOR_A_WHILE:
        return "MemberEpoch is invalid."
    return None


def _mistake_in_joining(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )
    return None


def _refused(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=int(error), error_message=message)
