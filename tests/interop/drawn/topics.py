"""Topics on both sides."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.wire.api.create_topics import CreateTopicsRequest

from ..topic_words import new, wait_for_leaders
from .comparing import Side


def make_topics(
    sides: Sequence[Side], configs: dict[str, dict[str, str | None]], partitions: int = 1
) -> None:
    """Create topics of these names and configs on each side, and wait for their leaders."""
    for side in sides:
        topics = [new(name, partitions, configs=settings) for name, settings in configs.items()]
        answer = side.request(CreateTopicsRequest(topics=topics, timeout_ms=60_000))
        assert {topic.error_code for topic in answer.topics} == {0}, answer
        for name in configs:
            wait_for_leaders(side, name, partitions)
