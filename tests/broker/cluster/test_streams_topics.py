"""Internal topics of Kafka Streams applications, as they are asked of the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.broker.cluster.streams_topics import ERRORS_KEPT_MAX, StreamsTopics
from fencepost.broker.cluster.topic_creation import IN_FLIGHT_MAX
from fencepost.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from fencepost.wire.errors import ErrorCode

KEPT_MS = 10_000


class Channel:
    """A way to the controller that keeps requests and waits with answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], Callable[..., None]]] = []

    def ask(self, request: CreateTopicsRequest, on_reply: Any, **options: Any) -> None:
        self.asked.append(([topic.name for topic in request.topics], on_reply))

    def answer(self, *results: tuple[str, ErrorCode, str | None]) -> None:
        """The first request that waits is answered."""
        _, on_reply = self.asked.pop(0)
        topics = [
            CreatableTopicResult(name=name, error_code=int(error), error_message=message)
            for name, error, message in results
        ]
        on_reply(ErrorCode.NONE, CreateTopicsResponse(topics=topics))

    def fail(self, error: ErrorCode) -> None:
        """The first request that waits gets no answer."""
        self.asked.pop(0)[1](error, None)


class World:
    def __init__(self) -> None:
        self.channel: Any = Channel()
        self.now_ms = 0
        self.topics = StreamsTopics(self.channel, lambda: self.now_ms)

    def create(self, *names: str) -> None:
        self.topics.create([CreatableTopic(name=name) for name in names], KEPT_MS)

    @property
    def asked(self) -> list[list[str]]:
        return [names for names, _ in self.channel.asked]


def test_a_topic_is_asked_for_once_at_a_time() -> None:
    world = World()
    world.create("a", "b")
    world.create("b", "c")
    world.create("a")
    assert world.asked == [["a", "b"], ["c"]]


def test_a_topic_that_is_there_by_now_is_no_error() -> None:
    world = World()
    world.create("a", "b")
    exists = ErrorCode.TOPIC_ALREADY_EXISTS
    world.channel.answer(("a", ErrorCode.NONE, None), ("b", exists, "exists"))
    assert world.topics.errors_of(["a", "b"]) == {}


def test_a_refusal_is_kept_for_its_time_and_not_asked_for_again() -> None:
    world = World()
    world.create("a", "b")
    refused = ErrorCode.INVALID_CONFIG
    world.channel.answer(("a", refused, "no such config"), ("b", refused, None))
    told = {"a": "no such config", "b": "INVALID_CONFIG"}
    assert world.topics.errors_of(["a", "b", "c"]) == told
    world.now_ms = KEPT_MS - 1
    world.create("a")
    assert world.asked == [] and world.topics.errors_of(["a"])
    world.now_ms = KEPT_MS
    assert world.topics.errors_of(["a"]) == {}
    world.create("a")
    assert world.asked == [["a"]]


def test_no_answer_of_a_controller_is_a_reason_too() -> None:
    world = World()
    world.create("a")
    world.channel.fail(ErrorCode.REQUEST_TIMED_OUT)
    assert world.topics.errors_of(["a"]) == {"a": "REQUEST_TIMED_OUT"}


def test_what_is_kept_is_bounded() -> None:
    world = World()
    for start in range(0, 3 * ERRORS_KEPT_MAX, 500):
        names = [f"t{number}" for number in range(start, start + 500)]
        world.create(*names)
        world.channel.answer(*((name, ErrorCode.INVALID_CONFIG, None) for name in names))
    kept = world.topics.errors_of(f"t{number}" for number in range(3 * ERRORS_KEPT_MAX))
    assert len(kept) == ERRORS_KEPT_MAX and "t0" not in kept
    world.create(*(f"u{number}" for number in range(IN_FLIGHT_MAX + 1)))
    world.create("one more")
    assert [len(names) for names in world.asked] == [IN_FLIGHT_MAX]
