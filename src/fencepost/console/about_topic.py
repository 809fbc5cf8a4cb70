"""Questions about one topic, which need not be there."""

from __future__ import annotations

from typing import TypeVar

from fencepost.client import asking
from fencepost.client.config_descriptions import NOT_THERE
from fencepost.client.conversation import Conversation
from fencepost.client.errors import BrokerError
from fencepost.client.metadata import TopicInfo
from fencepost.console.asked import NotThere
from fencepost.console.session import Session

T = TypeVar("T")


async def about_topic(session: Session, name: str, conversation: Conversation[T]) -> T:
    """What a conversation about the topic comes to. Raises NotThere, ClientError."""
    try:
        return await session.run(conversation)
    except BrokerError as error:
        if error.code not in NOT_THERE:
            raise
        raise NotThere(f"no topic {name!r} in this cluster") from None


async def topic_of(session: Session, name: str) -> TopicInfo:
    """The topic's partitions. Raises NotThere, ClientError."""
    return await about_topic(session, name, asking.topic(session.cluster, name))
