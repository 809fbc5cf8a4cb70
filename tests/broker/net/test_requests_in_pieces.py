"""Requests in pieces: what fails in a later one, and what comes between two of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import ROUTES
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.api import (
    ApiVersionsRequest,
    DescribeGroupsRequest,
    FetchRequest,
)
from fencepost.wire.api.describe_groups import DescribeGroupsResponse

from ...waiting import eventually
from ..apis.harness import Caller, register
from ..listener_fixtures import route, serve_listener
from ..topic_requests import FOR_DAYS_MS, batch, fetch_request, make_topic, produce

register("api_versions", "fetch")


def test_a_handler_that_fails_in_a_later_piece_is_an_error_in_the_answer() -> None:
    def handler() -> Any:
        yield None
        raise ValueError("unforeseen")

    context = PendingRequest(Caller(), ROUTES[FetchRequest.api_key], 12, 1)  # type: ignore
    assert list(context.answering(handler())) == [None]
    assert context.answered


LONG = DescribeGroupsRequest(groups=["g" * 1000] * 100)


@contextlib.contextmanager
def at_work() -> Iterator[list[int]]:
    """A handler of DescribeGroups that works until the list has an entry."""
    finished: list[int] = []

    def handler(context: Any, request: Any) -> Any:
        while not finished:
            yield None
        return DescribeGroupsResponse()

    with route(DescribeGroupsRequest, (5, 5), handler):
        yield finished


def test_long_frames_of_several_clients_are_decoded_one_per_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = [0]
    decoded_in: list[int] = []
    read = DescribeGroupsRequest.read

    def noted(*arguments: Any, **keywords: Any) -> Any:
        decoded_in.append(turns[0])
        return read(*arguments, **keywords)

    with contextlib.ExitStack() as stack:
        finished = stack.enter_context(at_work())
        served = stack.enter_context(serve_listener())
        served.scheduler.turn_s = 0.0
        first = stack.enter_context(served.connect())
        first.send(LONG, 5)
        eventually(lambda: served.thread.call(lambda: served.listener.work.is_busy), "the first")
        monkeypatch.setattr(DescribeGroupsRequest, "read", noted)

        def tick() -> None:
            turns[0] += 1
            if not finished:
                served.thread.loop.call_soon(tick)

        served.thread.call(tick)
        others = [stack.enter_context(served.connect()) for _ in range(10)]
        for client in others:
            client.send(LONG, 5)
        eventually(lambda: len(decoded_in) == 10, "the others")
        assert len(set(decoded_in)) == 10
        with served.connect() as small:
            assert small.ask(ApiVersionsRequest(), 0).error_code == 0
        finished.append(1)
        for client in (first, *others):
            client.receive(DescribeGroupsRequest.api_key, 5)


def test_data_that_arrives_while_a_long_fetch_is_begun_answers_it(node: Any, client: Any) -> None:
    """Between two pieces a partition moves that was looked at, and nobody will say so again."""
    count = 120
    topic = make_topic(client, partitions=count)
    get = node.node.broker.replicas.get
    eventually(
        lambda: all(isinstance(get(topic.name, i), HostedPartition) for i in range(count)), "all"
    )
    request = fetch_request(topic, *[0] * count, max_wait_ms=FOR_DAYS_MS)
    served = node.node.broker.listener.routes[FetchRequest.api_key]
    context = PendingRequest(Caller(), served, 12, 7)
    pieces = served.handler(context, request)

    def step(times: int) -> None:
        for _ in range(times):
            next(pieces, None)

    node.call(step, 4)
    assert not context.answered
    assert produce(client, topic, batch(b"a"), index=0).error_code == 0
    node.call(step, 50)
    assert context.answered, "nobody waits for what is there"
