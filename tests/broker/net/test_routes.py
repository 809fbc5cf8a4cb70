"""Routes: made when the first request comes, and what happens if that cannot be."""

from __future__ import annotations

import errno

import pytest

from fencepost.broker.net.registry import Route, Routes
from fencepost.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse

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
