"""What the console asks before it asks for a coordinator.

Brokers answer FindCoordinator by creating the internal topic of the coordinators, if it is not
there yet. A page only reads, so it looks for the topic first: without it no group and no
transactional id has ever been.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.client.cluster_view import COORDINATED, GROUP_KEY, TRANSACTION_KEY
from fencepost.client.conversation import Conversation, Exchange
from fencepost.client.errors import BrokerError
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.errors import ErrorCode

STATE_TOPICS: Final = {GROUP_KEY: "__consumer_offsets", TRANSACTION_KEY: "__transaction_state"}
"""Where coordinators keep their state, by the kinds of FindCoordinator."""

_UNKNOWN: Final = {
    GROUP_KEY: ErrorCode.GROUP_ID_NOT_FOUND,
    TRANSACTION_KEY: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
}


def asks_coordinator(asked: Exchange[Any]) -> bool:
    """Whether a broker may create an internal topic to answer this."""
    return isinstance(asked.message, FindCoordinatorRequest)


def requiring_state_topic(asked: Exchange[Any]) -> Conversation[None]:
    """See that the internal topic of the coordinator asked for is there, over the same connection.
    BrokerError where it is not: there is no such group or transactional id. A login that may not
    see the topic goes on: brokers do not tell it."""
    message = asked.message
    assert isinstance(message, FindCoordinatorRequest)
    kind = message.key_type
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=STATE_TOPICS[kind])], allow_auto_topic_creation=False
    )
    found = yield from Exchange(asked.connection, request)
    if any(one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for one in found.topics):
        key = message.key or ", ".join(message.coordinator_keys)
        text = f"no {COORDINATED[kind]} {key}: the cluster has no topic {STATE_TOPICS[kind]}"
        raise BrokerError.of(_UNKNOWN[kind], text)
