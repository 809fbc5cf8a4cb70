"""A client without rights is held to its quotas, whatever it asks for."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from fencepost.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryDataRequest,
    OpData,
)
from fencepost.wire.api.read_share_group_state import ReadShareGroupStateRequest
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateRequest
from fencepost.wire.api.sasl_handshake import SaslHandshakeRequest
from fencepost.wire.api.write_txn_markers import WriteTxnMarkersRequest
from fencepost.wire.message import Message

from ...waiting import DEADLINE_S, eventually
from ..conftest import RunningNode
from ..listener_fixtures import Client

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    users = 'user_eve="eve" user_broker="broker"'
    node = RunningNode(
        tmp_path_factory.mktemp("quotas"),
        {
            "listeners": "LOGIN://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": f"{MODULE} required {users};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:broker",
        },
    )
    try:
        part = EntityData(entity_type="user", entity_name=None)
        limit = OpData(key="request_percentage", value=0.000_001)
        request = AlterClientQuotasRequest(entries=[EntryDataRequest(entity=[part], ops=[limit])])
        port = node.node.bound[1].port
        with Client(socket.create_connection(("127.0.0.1", port), DEADLINE_S)) as client:
            assert client.ask(request, 1).entries[0].error_code == 0
        assert node.node.broker is not None
        quotas = node.node.broker.quotas.quotas
        eventually(lambda: any(quotas.all), "the quota is in force")
        yield node
    finally:
        node.close()


def log_in(running: RunningNode, user: str) -> Client:
    client = running.connect()
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    token = f"\0{user}\0{user}".encode()
    assert client.ask(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0
    return client


def is_muted(running: RunningNode) -> bool:
    """Whether the one connection waits before it takes another request."""
    assert running.node.broker is not None
    listener = running.node.broker.listener
    eventually(lambda: len(listener.connections) == 1, "only one is open")
    (connection,) = listener.connections
    return bool(running.call(lambda: connection.waits_s > 0))


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (WriteTxnMarkersRequest(markers=[]), 1),
        (ReadShareGroupStateRequest(group_id="g"), 0),
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=b""), 2),
    ],
    ids=["markers", "share state", "handshake", "authenticate"],
)
def test_what_brokers_and_logins_ask_is_free_to_them_alone(
    running: RunningNode, request_: Message, version: int
) -> None:
    with log_in(running, "eve") as client:
        assert not is_muted(running)  # the login is not charged
        client.ask(request_, version)
        assert is_muted(running)


def test_a_broker_is_not_charged(running: RunningNode) -> None:
    with log_in(running, "broker") as client:
        client.ask(WriteTxnMarkersRequest(markers=[]), 1)
        client.ask(ReadShareGroupStateRequest(group_id="g"), 0)
        assert not is_muted(running)
