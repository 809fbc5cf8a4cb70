"""A simulated broker decides requests by the handlers of a broker."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker.apis import load_all
from fencepost.broker.net.registry import ROUTES
from fencepost.runtime.requests.consumer_group_heartbeat import consumer_group_heartbeat
from fencepost.runtime.requests.context import Pieces
from fencepost.runtime.requests.share_fetch import share_fetch
from fencepost.runtime.requests.streams_group_heartbeat import streams_group_heartbeat
from fencepost.sim.brokers.arrived_request import ArrivedRequest
from fencepost.sim.brokers.requests import HANDLERS
from fencepost.sim.oracle import Violation
from fencepost.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from fencepost.wire.api.heartbeat import HeartbeatResponse
from fencepost.wire.api.share_fetch import ShareFetchRequest
from fencepost.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from fencepost.wire.message import Message

DECIDE: dict[type[Message], Any] = {
    ConsumerGroupHeartbeatRequest: consumer_group_heartbeat,
    ShareFetchRequest: share_fetch,
    StreamsGroupHeartbeatRequest: streams_group_heartbeat,
}
"""What the broker's handler asks where it does something besides."""


@pytest.mark.parametrize("kind", HANDLERS, ids=lambda kind: kind.__name__)
def test_a_simulated_broker_runs_the_handler_that_a_broker_serves(kind: type[Message]) -> None:
    load_all()
    assert kind.api_key is not None
    handler = ROUTES[kind.api_key].handler
    decides = DECIDE.get(kind)
    if decides is None:
        assert handler is HANDLERS[kind]
    else:
        assert handler.__globals__[decides.__name__] is decides


class Lane:
    """Keeps the work that begins in it."""

    def __init__(self) -> None:
        self.work: list[Any] = []

    def begin(self, pieces: Any) -> None:
        self.work.append(pieces)


def arrived() -> tuple[ArrivedRequest, list[Any], list[Any]]:
    posted: list[Any] = []
    lane = Lane()
    return ArrivedRequest("HeartbeatRequest", 4, posted.append, lane, 1_001), posted, lane.work


def test_an_answer_that_is_made_in_pieces_is_posted_when_it_is_there() -> None:
    context, posted, begun = arrived()
    response = HeartbeatResponse()

    def work() -> Pieces:
        yield None
        return response

    context.decided(work())
    (pieces,) = begun
    assert next(pieces) is None
    assert not context.answered
    assert next(pieces, "done") == "done"
    assert context.answered
    assert posted == [response]


def test_a_handler_that_fails_ends_the_world() -> None:
    context, posted, begun = arrived()

    def work() -> Pieces:
        yield None
        raise KeyError("a mistake of ours")

    context.decided(work())
    (pieces,) = begun
    next(pieces)
    with pytest.raises(Violation, match="HeartbeatRequest v4 fails"):
        next(pieces)
    assert posted == []


def test_a_request_is_answered_once() -> None:
    context, _, _ = arrived()
    context.reply_lazily(HeartbeatResponse)
    with pytest.raises(AssertionError, match="answered twice"):
        context.reply(HeartbeatResponse())
