"""Routes: made when the first request comes, and what happens if that cannot be."""

from __future__ import annotations

import errno
from typing import Any, NamedTuple

import pytest

from fencepost.broker.net import registry
from fencepost.broker.net.registry import (
    MAX_ELEMENTS,
    WHOLE_REQUEST_ELEMENTS_MAX,
    Route,
    Routes,
    bind_route,
    handles,
)
from fencepost.broker.net.served import BROKER
from fencepost.runtime.requests.parts import MissingPartError
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


def test_a_route_that_is_added_is_advertised_and_one_that_is_taken_away_is_made_anew():
    routes = Routes({KEY: (1, 2)}, lambda _: ROUTE)
    other = Route(KEY, "Heartbeat", HeartbeatRequest, 2, 3, 1, ROUTE.handler)
    routes[KEY + 1] = routes[KEY] = other
    assert routes[KEY] is other
    assert routes.advertised == {KEY: (1, 3), KEY + 1: (1, 3)} and len(routes) == 2
    del routes[KEY + 1], routes[KEY]
    assert not routes and KEY not in routes
    routes.advertised[KEY] = (1, 2)
    assert routes[KEY] is ROUTE


def test_a_generator_function_works_in_pieces_and_takes_large_requests(monkeypatch):
    monkeypatch.setattr(registry, "ROUTES_BY_KIND", {BROKER: {}})

    def pieces(context: object, request: object) -> Any:
        yield None

    def registered(handler: Any, **how: Any) -> Route:
        routes = registry.ROUTES_BY_KIND[BROKER] = {}
        handles(HeartbeatRequest, **how)(handler)
        return routes[KEY]

    whole = registered(lambda context, request: None)
    for route in (registered(pieces), registered(ROUTE.handler, in_pieces=True)):
        assert route.in_pieces and route.max_elements == MAX_ELEMENTS
    assert not whole.in_pieces and whole.max_elements == WHOLE_REQUEST_ELEMENTS_MAX


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
