"""Which topics a request is about, also where it names them by id.

Ids are learned from the answers to Metadata, CreateTopics and DescribeTopicPartitions that pass:
a client that names a topic by its id has been told the id by one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fencepost.wire.message import Message, Struct
from fencepost.wire.types import Uuid

TEACHING: Final = frozenset({3, 19, 75})
"""API keys of the answers that tell names and ids: Metadata, CreateTopics, and
DescribeTopicPartitions."""
TOPIC_RESOURCE: Final = 2
IDS_MAX: Final = 100_000


class TopicIds:
    """Names of topics by their ids, as far as they were heard of."""

    def __init__(self) -> None:
        self._names: dict[Uuid, str] = {}

    def learn(self, answer: Message) -> None:
        """Take note of what an answer says."""
        for topic in getattr(answer, "topics", ()):
            if topic.topic_id != Uuid.ZERO and topic.name and len(self._names) < IDS_MAX:
                self._names[topic.topic_id] = topic.name

    def topics_of(self, request: Struct) -> set[str]:
        """The names of the topics that the request lists."""
        return {
            self._names.get(topic, "") if isinstance(topic, Uuid) else topic
            for topic in _topics(request)
        } - {""}


def _topics(struct: Struct) -> Iterator[str | Uuid]:
    """Names and ids of the topics in a request, whatever the message calls them."""
    for field in type(struct).fields:
        if not field.is_array:
            continue
        are_topics = "topic" in field.name
        for item in getattr(struct, field.name) or ():
            if isinstance(item, Struct):
                if are_topics:
                    yield from _named(item)
                elif getattr(item, "resource_type", None) == TOPIC_RESOURCE:
                    yield getattr(item, "resource_name", "")
                yield from _topics(item)
            elif are_topics and isinstance(item, str):
                yield item


def _named(item: Any) -> Iterator[str | Uuid]:
    for name in ("name", "topic", "topic_name", "topic_id"):
        value = getattr(item, name, None)
        if value:
            yield value
