"""`StreamsTopics`: has the internal topics of Kafka Streams applications created (KIP-1071).

The active controller is asked, in this process or another, for each topic once at a time, and not
again while it is kept why it refused. Nothing waits for it: members send heartbeats until the
topics are there, and are answered what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from fencepost.broker.cluster.controller_channel import ControllerChannel
from fencepost.broker.cluster.topic_creation import IN_FLIGHT_MAX, WITHOUT_CONFIGS
from fencepost.wire.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from fencepost.wire.errors import ErrorCode

ERRORS_KEPT_MAX: Final = 1_000
"""Topics of which it is kept why they were not created; beyond that the oldest are forgotten."""


class _Refusal(NamedTuple):
    """Why a topic was not created."""

    message: str
    expires_ms: int


class StreamsTopics:
    """See the module; implements `StreamsTopicCreation`."""

    def __init__(self, channel: ControllerChannel, now_ms: Callable[[], int]) -> None:
        self._channel = channel
        self._now_ms = now_ms
        self._in_flight: set[str] = set()
        self._refusals: dict[str, _Refusal] = {}

    def create(self, topics: Iterable[CreatableTopic], errors_kept_ms: int) -> None:
        """Have those created that are not being created, and were not refused of late."""
        wanted = []
        for topic in topics:
            if len(self._in_flight) >= IN_FLIGHT_MAX:
                break
            if topic.name not in self._in_flight and self._refusal_of(topic.name) is None:
                self._in_flight.add(topic.name)
                wanted.append(topic)
        if not wanted:
            return
        names = [topic.name for topic in wanted]

        def on_reply(error: ErrorCode, reply: CreateTopicsResponse | None) -> None:
            self._in_flight.difference_update(names)
            if reply is None:
                refused = dict.fromkeys(names, error.name)
            else:
                fine = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
                refused = {
                    one.name: one.error_message or ErrorCode(one.error_code).name
                    for one in reply.topics
                    if one.error_code not in fine
                }
            self._keep(refused, self._now_ms() + errors_kept_ms)

        request = CreateTopicsRequest(topics=wanted)
        self._channel.ask(request, on_reply, api_version=WITHOUT_CONFIGS, purpose="creation")

    def errors_of(self, names: Iterable[str]) -> dict[str, str]:
        """Why topics of these names were not created, as far as that is kept."""
        found = {name: self._refusal_of(name) for name in names}
        return {name: one.message for name, one in found.items() if one is not None}

    def _refusal_of(self, name: str) -> _Refusal | None:
        refusal = self._refusals.get(name)
        if refusal is not None and refusal.expires_ms <= self._now_ms():
            del self._refusals[name]
            return None
        return refusal

    def _keep(self, refused: dict[str, str], expires_ms: int) -> None:
        for name, message in refused.items():
            self._refusals.pop(name, None)
            self._refusals[name] = _Refusal(message, expires_ms)
        while len(self._refusals) > ERRORS_KEPT_MAX:
            del self._refusals[next(iter(self._refusals))]
