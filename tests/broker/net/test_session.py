"""What a connection does as its session says: on listeners that ask for a login, and with a session
that ends. Logins themselves are in `test_login`."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.broker.net.connection import Connection
from fencepost.broker.net.listener_security import ListenerSecurity
from fencepost.machines.session import (
    USER,
    Authenticated,
    HandshakeArrived,
    Principal,
    SecurityProtocol,
    SessionInput,
    SessionRules,
    SessionState,
)
from fencepost.wire.api import ApiVersionsRequest
from fencepost.wire.api.init_producer_id import InitProducerIdRequest
from fencepost.wire.api.metadata import MetadataRequest
from fencepost.wire.errors import ErrorCode

from ...waiting import eventually
from ..conftest import RunningNode
from ..topic_requests import batch, make_topic, produce, produce_request

LOGIN_BYTES = 1_000
ASK = ApiVersionsRequest(client_software_name="t", client_software_version="1")
INIT = InitProducerIdRequest(transaction_timeout_ms=1)
ALICE = Principal(USER, "alice")


@pytest.fixture
def secured(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`secured(inputs..., **rules)`: a client of a listener with such rules, whose session has
    taken the inputs, and its connection."""
    assert node.node.broker is not None
    listener = node.node.broker.listener

    def connect(*inputs: SessionInput, delay_ms: int = 1, max_session_ms: int = 0) -> Any:
        eventually(lambda: not listener.connections, "those before are closed")
        rules = SessionRules(
            1 << 20,
            SecurityProtocol.SASL_PLAINTEXT,
            ("PLAIN",),
            LOGIN_BYTES,
            max_session_ms,
            delay_ms,
        )
        monkeypatch.setitem(listener.securities, "PLAINTEXT", ListenerSecurity("PLAINTEXT", rules))
        client = node.connect()
        eventually(lambda: listener.connections, "it is connected")
        (connection,) = listener.connections
        for one in inputs:
            node.call(connection._session.step, one)
        return client, connection

    return connect


def test_before_the_handshake_no_other_api_is_answered(secured) -> None:
    client, connection = secured()
    with client:
        assert client.ask(ASK, 3).error_code == 0
        client.send(MetadataRequest(), 12)
        assert client.is_disconnected()
    assert connection._session.state is SessionState.CLOSING


def test_a_frame_before_login_is_small(secured) -> None:
    client, _ = secured()
    with client:
        client.send_raw(struct.pack(">i", LOGIN_BYTES + 1) + bytes(4))
        assert client.is_disconnected()


def test_before_login_another_api_is_refused_and_the_client_disconnected(secured) -> None:
    client, _ = secured(HandshakeArrived("PLAIN", 1, 0))
    with client:
        assert client.ask(INIT, 4).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert client.is_disconnected()


def test_an_api_without_a_field_for_it_is_not_answered(secured) -> None:
    client, _ = secured(HandshakeArrived("PLAIN", 1, 0))
    with client:
        client.send(MetadataRequest(), 12)
        assert client.is_disconnected()


def test_while_a_refusal_is_delayed_nothing_is_read(secured, node) -> None:
    client, connection = secured(HandshakeArrived("PLAIN", 1, 0), delay_ms=3_600_000)
    with client:
        client.send(INIT, 4)
        eventually(lambda: connection._failure_delay is not None, "it is refused, later")
        client.send(INIT, 4)
        eventually(lambda: connection._reading_paused, "nothing more is read")
        assert len(connection._answers.waiting) == 1
        timer = connection._failure_delay
    eventually(lambda: connection.closed or _sweep(node, connection), "it is closed")
    eventually(timer.cancelled, "the client has left, and is not waited for")


def _sweep(node: RunningNode, connection: Connection) -> None:
    """What the listener does now and then: a client is not read from, and has left."""
    connection.last_activity = float("-inf")
    assert node.node.broker is not None
    node.call(node.node.broker.listener._sweep)


def test_requests_have_the_principal_of_the_session(secured, node, monkeypatch) -> None:
    seen: list[Principal] = []
    listener = node.node.broker.listener
    new_context = listener.new_context

    def watching(*given: Any) -> Any:
        context = new_context(*given)
        seen.append(context.principal)
        return context

    monkeypatch.setattr(listener, "new_context", watching)
    client, _ = secured(HandshakeArrived("PLAIN", 1, 0), Authenticated(ALICE, 0))
    with client:
        client.ask(MetadataRequest(), 12)
    assert seen == [ALICE]


def test_a_session_that_ends_is_asked_about_runs_too(secured, node) -> None:
    """It lasts for a day; then Produce requests are as refused as all others."""
    day_ms = 86_400_000
    now_ms = int(node.call(node._thread.loop.time) * 1000)
    client, connection = secured(
        HandshakeArrived("PLAIN", 1, 0), Authenticated(ALICE, now_ms), max_session_ms=day_ms
    )
    with client:
        assert connection._session.is_guarded
        topic = make_topic(client)
        for _ in range(3):
            assert produce(client, topic, batch(b"x")).error_code == 0
        connection._session.expires_ms = now_ms
        client.send(produce_request(topic, batch(b"x")), 9)
        assert client.is_disconnected()
