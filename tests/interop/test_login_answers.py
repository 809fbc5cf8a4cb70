"""Logins frame by frame: what Apache Kafka's broker answers, and that Fencepost answers the same.

Both brokers run beside each other. Every dialogue is had with both, and what comes back is
compared: responses, texts included, tokens without headers, and where the connection ends.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.metadata import MetadataRequest
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateRequest
from fencepost.wire.api.sasl_handshake import SaslHandshakeRequest
from fencepost.wire.message import Message

from ..broker.conftest import RunningNode
from ..broker.listener_fixtures import Client
from ..waiting import DEADLINE_S
from . import apache
from .conftest import jars_or_skip

pytestmark = [pytest.mark.interop, pytest.mark.slow]

MODULES = "org.apache.kafka.common.security"
USERS = 'username="admin" password="a" user_admin="a" user_ada="pass word" user_bob="b"'
LOGINS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "connections.max.reauth.ms": "3600000",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f"{MODULES}.plain.PlainLoginModule required {USERS};"
    ),
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": (
        f'{MODULES}.scram.ScramLoginModule required username="x" password="x";'
    ),
}
ADA, BOB = b"\0ada\0pass word", b"\0bob\0b"


class Sent(NamedTuple):
    """One frame of a dialogue: a request in a version, or bytes as they are."""

    message: Message | bytes
    version: int = 0
    is_raw_answer: bool = False


def handshake(mechanism: str = "PLAIN", version: int = 1) -> Sent:
    return Sent(SaslHandshakeRequest(mechanism=mechanism), version)


def token(data: bytes, version: int = 2) -> Sent:
    return Sent(SaslAuthenticateRequest(auth_bytes=data), version)


def raw(data: bytes) -> Sent:
    return Sent(struct.pack(">i", len(data)) + data, is_raw_answer=True)


def versions(name: str = "t", version: int = 3, **more: Any) -> Sent:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1", **more)
    return Sent(request, version)


def unknown_version(api_key: int) -> Sent:
    return Sent(struct.pack(">ihhihb", 11, api_key, 99, 7, -1, 0), is_raw_answer=True)


COORDINATOR = Sent(FindCoordinatorRequest(key="g"), 3)
DIALOGUES: dict[str, list[Sent]] = {
    "login v1": [versions(), handshake(), token(ADA), token(ADA)],
    "login v1 with old requests": [handshake(), token(ADA, 0), handshake(), token(ADA, 1)],
    "login v0": [handshake(version=0), raw(ADA), versions()],
    "wrong password v0": [handshake(version=0), raw(b"\0ada\0no")],
    "wrong password": [handshake(), token(b"\0ada\0no")],
    "no such user": [handshake(), token(b"\0eve\0no")],
    "no user": [handshake(), token(b"\0\0no")],
    "no password": [handshake(), token(b"\0ada\0")],
    "other identity": [handshake(), token(b"bob\0ada\0pass word")],
    "own identity": [handshake(), token(b"ada\0ada\0pass word")],
    "two parts": [handshake(), token(b"ada\0pass word")],
    "four parts": [handshake(), token(b"\0ada\0pass word\0")],
    "empty token": [handshake(), token(b"")],
    "unknown mechanism": [handshake("DIGEST-MD5")],
    "unknown mechanism v0": [handshake("DIGEST-MD5", 0)],
    "other api first": [COORDINATOR],
    "other api after the handshake": [handshake(), COORDINATOR],
    "handshake twice": [handshake(), handshake()],
    "versions after the handshake": [handshake(), versions()],
    "versions twice": [versions(), versions()],
    "invalid client": [versions("-"), versions(), handshake(), token(ADA)],
    "unknown version of ApiVersions": [unknown_version(18), versions(), handshake(), token(ADA)],
    "unknown version of SaslHandshake": [unknown_version(17)],
    "unknown version of SaslAuthenticate": [handshake(), unknown_version(36)],
    "unknown api": [Sent(struct.pack(">ihhih", 10, 999, 0, 7, -1), is_raw_answer=True)],
    "token before the handshake": [token(ADA)],
    "raw token behind v1": [handshake(), raw(ADA)],
    "other cluster before the login": [versions(version=5, cluster_id="other", node_id=77)],
    "half a cluster": [versions(version=5, cluster_id="other"), versions()],
    "scram without a user": [handshake("SCRAM-SHA-256"), token(b"n,,n=,r=abc")],
    "scram other identity": [handshake("SCRAM-SHA-256"), token(b"y,,n=ada,r=abc")],
    "again": [handshake(), token(ADA), handshake(), token(ADA), versions()],
    "again at once": [handshake(), token(ADA), handshake(), token(ADA), handshake(), versions()],
    "again as another": [handshake(), token(ADA), handshake(), token(BOB)],
    "again by another mechanism": [handshake(), token(ADA), handshake("SCRAM-SHA-256"), token(ADA)],
    "again by an unknown mechanism": [handshake(), token(ADA), handshake("DIGEST-MD5")],
    "again with a wrong password": [handshake(), token(ADA), handshake(), token(b"\0ada\0no")],
    "other api while logging in again": [handshake(), token(ADA), handshake(), COORDINATOR],
    "too large": [Sent(struct.pack(">i", 600_000) + bytes(20), is_raw_answer=True)],
}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The ports of both."""
    jars_or_skip(apache.KAFKA)
    directory = tmp_path_factory.mktemp("logins")
    theirs = {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"}
    ours = {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT"}
    with contextlib.ExitStack() as stack:
        kafka = stack.enter_context(apache.apache_broker(directory / "apache", **LOGINS, **theirs))
        node = RunningNode(directory / "ours", {**LOGINS, **ours})
        stack.callback(node.close)
        yield {"apache": int(kafka.bootstrap_servers.rpartition(":")[2]), "ours": node.port}


def had_with(port: int, dialogue: list[Sent]) -> list[Any]:
    """What comes back, frame by frame."""
    found: list[Any] = []
    with Client(socket.create_connection(("127.0.0.1", port), DEADLINE_S)) as client:
        for sent in dialogue:
            try:
                found.append(_answer(client, sent))
            except (EOFError, ConnectionError):
                found.append("disconnected")
                return found
    return found


def _answer(client: Client, sent: Sent) -> Any:
    if isinstance(sent.message, bytes):
        client.send_raw(sent.message)
        frame = client.receive_frame()
        return frame[:6]  # of ApiVersions what comes behind the error code differs
    answer = client.ask(sent.message, sent.version)
    return _comparable(answer)


def _comparable(answer: Any) -> Any:
    """Without what need not be the same: the APIs, the order of mechanisms."""
    if hasattr(answer, "api_keys"):
        return "ApiVersions", answer.error_code, bool(answer.api_keys)
    if hasattr(answer, "mechanisms"):
        return "SaslHandshake", answer.error_code, sorted(answer.mechanisms)
    if hasattr(answer, "session_lifetime_ms"):
        told = answer.error_message, bytes(answer.auth_bytes), answer.session_lifetime_ms
        return "SaslAuthenticate", answer.error_code, *told
    return type(answer).__name__, answer.error_code, answer.error_message


@pytest.mark.parametrize("name", DIALOGUES)
def test_both_say_the_same(brokers: dict[str, int], name: str):
    found = {kind: had_with(port, DIALOGUES[name]) for kind, port in brokers.items()}
    assert found["ours"] == found["apache"]


def test_what_was_asked_before_is_answered_amid_a_login(brokers: dict[str, int]):
    for port in brokers.values():
        with Client(socket.create_connection(("127.0.0.1", port), DEADLINE_S)) as client:
            for one in (handshake(), token(ADA)):
                assert not isinstance(one.message, bytes)
                assert client.ask(one.message, one.version).error_code == 0
            asked = [(MetadataRequest(topics=[]), 12)] * 3
            login = [(one.message, one.version) for one in (handshake(), token(ADA))]
            sent = [client.send(*one) for one in (*asked, *login, *asked)]  # type: ignore[arg-type]
            keys = [(3, 12)] * 3 + [(17, 1), (36, 2)] + [(3, 12)] * 3
            assert [client.receive(*one)[0] for one in keys] == sent
