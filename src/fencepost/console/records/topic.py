"""The topic that a page of records is about."""

from __future__ import annotations

from typing import Final

from fencepost.client import asking
from fencepost.client.errors import BrokerError
from fencepost.client.metadata import TopicInfo
from fencepost.console.asked import NotThere
from fencepost.console.session import Session
from fencepost.wire.errors import ErrorCode

NO_TOPIC: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


async def topic_of(session: Session, name: str) -> TopicInfo:
    """The topic's partitions. Raises NotThere, ClientError."""
    try:
        return await session.run(asking.topic(session.cluster, name))
    except BrokerError as error:
        if error.code not in NO_TOPIC:
            raise
        raise NotThere(f"no topic {name!r} in this cluster") from None
