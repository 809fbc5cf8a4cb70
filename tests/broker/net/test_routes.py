"""Routes: made when the first request comes, and what happens if that cannot be."""

from __future__ import annotations

import errno
from typing import Any, NamedTuple

import pytest

from fencepost.broker.net.registry import MissingPartError, Route, Routes, bind_route
from fencepost.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from fencepost.wire.frame import encode_response_parts

from ..listener_fixtures import serve_listener

KEY = 12
ROUTE = Route(KEY, "Heartbeat", HeartbeatRequest, 1, 4, 0, lambda context, request: None)


def test_a_route_is_made_once_and_advertised_before():
    made: list[int] = []

    def make(api_key: int) -> Route:
        made.append(api_key)
        return ROUTE

    routes = Routes({KEY: (0, 4)}, make)
    changed = routes.each(lambda route: route)
    assert changed.advertised == {KEY: (0, 4)} and list(changed) == [KEY] and made == []
    assert changed[KEY] is changed[KEY] is routes[KEY] is ROUTE and made == [KEY]
    with pytest.raises(KeyError):
        changed[KEY + 1]


def test_a_handler_that_cannot_be_loaded_costs_one_connection():
    tries = iter([OSError(errno.EMFILE, "Too many open files"), None])

    def make(api_key: int) -> Route:
        if (error := next(tries)) is not None:
            raise error
        return Route(
            api_key, "Heartbeat", HeartbeatRequest, 0, 4, 0, lambda *_: HeartbeatResponse()
        )

    with serve_listener() as served:
        served.listener.routes = Routes({KEY: (0, 4)}, make)
        with served.connect() as client:
            client.send(HeartbeatRequest(), 4)
            assert client.is_disconnected()
        with served.connect() as client:
            assert client.ask(HeartbeatRequest(), 4) == HeartbeatResponse()


class Some(NamedTuple):
    """Parts that go together."""

    number: int
    name: str


def test_a_handler_is_given_parts_and_named_tuples_of_parts():
    def handle(context: object, request: object, *, name: str, some: Some) -> Any:
        return name, some

    route = Route(KEY, "Heartbeat", HeartbeatRequest, 1, 4, 0, handle, take_bytes=handle)
    bound = bind_route(route, {int: 5, str: "a"})
    assert bound.take_bytes is not None
    assert bound.handler(1, 2) == bound.take_bytes(1, 2) == ("a", Some(5, "a"))
    with pytest.raises(MissingPartError, match="int"):
        bind_route(route, {str: "a"})


def test_an_answer_that_is_made_from_bytes_leaves_at_once():
    tells = iter(["answers", "leaves", "breaks", "answers"])

    def take(context: Any, frame: memoryview, start: int) -> Any:
        how = next(tells)
        if how == "breaks":
            raise ValueError("unforeseen")
        if how == "leaves":
            return False
        assert context.is_next
        made = HeartbeatResponse(throttle_time_ms=1)
        return encode_response_parts(made, context.api_version, context.correlation_id)

    def handle(context: object, request: object) -> Any:
        return HeartbeatResponse(throttle_time_ms=2)

    with serve_listener() as served:
        route = Route(KEY, "Heartbeat", HeartbeatRequest, 0, 4, 0, handle, take_bytes=take)
        served.listener.routes = Routes({KEY: (0, 4)}, lambda _: route)
        with served.connect() as client:
            answers = [client.ask(HeartbeatRequest(), 4) for _ in range(4)]
    assert [one.throttle_time_ms for one in answers] == [1, 2, 0, 1]
    assert [one.error_code for one in answers] == [0, 0, -1, 0]
