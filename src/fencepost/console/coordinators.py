"""What the console asks before it asks what may have a broker create an internal topic.

Brokers answer FindCoordinator by creating the internal topic of the coordinators, if it is not
there yet, and what names partitions of a share group by asking its share coordinator. A page only
reads, so it looks for the topic first: without it no group, no transactional id and no state of a
share group has ever been.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fencepost.client.cluster_view import COORDINATED, GROUP_KEY, TRANSACTION_KEY
from fencepost.client.conversation import Conversation, Exchange
from fencepost.client.errors import BrokerError
from fencepost.wire.api.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.errors import ErrorCode

SHARE_KEY: Final = 2
"""The kind of FindCoordinator that asks for a share coordinator."""


class StateTopic(NamedTuple):
    """Where coordinators keep the state of `what`, and the error by which they say that they have
    none of it."""

    name: str
    what: str
    unknown: ErrorCode


STATE_TOPICS: Final = {
    GROUP_KEY: StateTopic(
        "__consumer_offsets", COORDINATED[GROUP_KEY], ErrorCode.GROUP_ID_NOT_FOUND
    ),
    TRANSACTION_KEY: StateTopic(
        "__transaction_state",
        COORDINATED[TRANSACTION_KEY],
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ),
    SHARE_KEY: StateTopic(
        "__share_group_state", "state of share group", ErrorCode.GROUP_ID_NOT_FOUND
    ),
}
"""By the kinds of FindCoordinator."""


class NeedsState(NamedTuple):
    """A request whose answer may create a topic: which, and about what it asks."""

    topic: StateTopic
    key: str


def needed_state(asked: Exchange[Any]) -> NeedsState | None:
    """The internal topic that a broker may create to answer this, None for what creates nothing."""
    message = asked.message
    if isinstance(message, FindCoordinatorRequest):
        key = message.key or ", ".join(message.coordinator_keys)
        return NeedsState(STATE_TOPICS[message.key_type], key)
    if isinstance(message, DescribeShareGroupOffsetsRequest):
        named = [one.group_id for one in message.groups if one.topics]
        return NeedsState(STATE_TOPICS[SHARE_KEY], ", ".join(named)) if named else None
    return None


def requiring_state_topic(asked: Exchange[Any], needed: NeedsState) -> Conversation[None]:
    """See that the internal topic is there, over the same connection. BrokerError where it is not:
    there is nothing of what is asked for. A login that may not see the topic goes on: brokers do
    not tell it."""
    topic = needed.topic
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic.name)], allow_auto_topic_creation=False
    )
    found = yield from Exchange(asked.connection, request)
    if any(one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for one in found.topics):
        text = f"no {topic.what} {needed.key}: the cluster has no topic {topic.name}"
        raise BrokerError.of(topic.unknown, text)
