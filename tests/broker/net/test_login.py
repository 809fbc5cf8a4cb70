"""Logins at a listener with SASL: what is answered to which frame, in Kafka's order of checks."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.client.protocol.sasl import ScramExchange
from fencepost.runtime.requests.audit import AuditEvent, LoginEvent
from fencepost.wire.api import ApiVersionsRequest
from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.metadata import MetadataRequest
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateRequest
from fencepost.wire.api.sasl_handshake import SaslHandshakeRequest

from ...machines.sasl.lookups import salted
from ...waiting import eventually
from ..conftest import RunningNode
from ..listener_fixtures import Client

PLAIN_MODULE = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' user_ada="pass word" user_bob="b";'
)
CONFIG = {
    "listeners": "LOGIN://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "connection.failed.authentication.delay.ms": "20",
    "listener.name.login.plain.sasl.jaas.config": PLAIN_MODULE,
    "listener.name.login.plain.connections.max.reauth.ms": "60000",
}
VERSIONS = ApiVersionsRequest(client_software_name="t", client_software_version="1")
ADA, BOB = b"\0ada\0pass word", b"\0bob\0b"
METADATA, VERSION = MetadataRequest(), 12


@pytest.fixture(scope="module")
def login_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    running = RunningNode(tmp_path_factory.mktemp("login") / "data", CONFIG)
    yield running
    running.close()


@pytest.fixture
def login(login_node: RunningNode) -> Iterator[Client]:
    with login_node.connect() as client:
        yield client


def shake(client: Client, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return client.ask(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(client: Client, token: bytes, version: int = 2) -> Any:
    return client.ask(SaslAuthenticateRequest(auth_bytes=token), version)


def send_token(client: Client, token: bytes) -> bytes:
    client.send_raw(struct.pack(">i", len(token)) + token)
    return client.receive_frame()


def log_in(client: Client, token: bytes = ADA) -> Any:
    assert shake(client).error_code == 0
    answer = authenticate(client, token)
    assert answer.error_code == 0
    return answer


def counts(node: RunningNode) -> Any:
    assert node.node.broker is not None
    return node.node.broker.listener.logins.counts


# -- before the handshake ------------------------------------------------------------------


def test_a_client_logs_in_and_is_served(login: Client):
    assert login.ask(VERSIONS, 3).error_code == 0
    shaken = shake(login)
    assert (shaken.error_code, shaken.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-256"])
    done = authenticate(login, ADA)
    assert (done.error_code, done.auth_bytes, done.session_lifetime_ms) == (0, b"", 60_000)
    assert login.ask(METADATA, VERSION).brokers


def test_versions_may_be_asked_again_after_an_error_only(login: Client):
    assert login.ask(ApiVersionsRequest(client_software_name="-"), 3).error_code == 42
    # KIP-1242's comparison comes after the login.
    named = ApiVersionsRequest(
        client_software_name="t", client_software_version="1", cluster_id="other", node_id=9
    )
    assert login.ask(named, 5).error_code == 0
    login.send(VERSIONS, 3)
    assert login.is_disconnected()


def test_a_version_of_api_versions_that_is_not_there_is_answered_in_v0(login: Client):
    login.send_raw(struct.pack(">ihhihb", 11, 18, 99, 7, -1, 0))
    frame = login.receive_frame()
    assert struct.unpack_from(">ih", frame) == (7, 35)
    assert login.ask(VERSIONS, 3).error_code == 0
    log_in(login)


@pytest.mark.parametrize("request_", [METADATA, FindCoordinatorRequest(key="g")])
def test_other_apis_are_not_answered(login: Client, request_: Any):
    login.send(request_, 3)
    assert login.is_disconnected()


def test_no_other_schema_is_read_before_a_login(login: Client, monkeypatch: pytest.MonkeyPatch):
    def read(*_: Any, **__: Any) -> Any:
        raise AssertionError("it is not decoded")

    monkeypatch.setattr(FindCoordinatorRequest, "read", read)
    shake(login)
    assert login.ask(FindCoordinatorRequest(key="g"), 3).error_code == 34
    assert login.is_disconnected()


def test_an_unknown_mechanism_is_33_with_those_that_are_known(login: Client):
    answer = shake(login, "GSSAPI")
    assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN", "SCRAM-SHA-256"])
    assert login.is_disconnected()


# -- SaslAuthenticate ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"\0ada\0no", "Authentication failed: Invalid username or password"),
        (b"\0eve\0no", "Authentication failed: Invalid username or password"),
        (b"ada", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_plain_says_what_is_wrong(login: Client, token: bytes, text: str):
    shake(login)
    answer = authenticate(login, token)
    assert (answer.error_code, answer.error_message) == (58, text)
    assert login.is_disconnected()


def test_an_api_without_an_error_of_its_own_is_not_answered(login: Client):
    shake(login)
    login.send(METADATA, VERSION)
    assert login.is_disconnected()


def test_sasl_authenticate_in_an_unknown_version_has_no_answer(login: Client):
    shake(login)
    login.send_raw(struct.pack(">ihhihb", 11, 36, 9, 7, -1, 0))
    assert login.is_disconnected()


def test_v0_of_sasl_authenticate_tells_no_lifetime(login: Client, login_node: RunningNode):
    before = counts(login_node).cannot_again.total()
    shake(login)
    assert authenticate(login, ADA, 0).session_lifetime_ms == 0
    assert counts(login_node).cannot_again.total() == before + 1


def test_a_login_is_over_only_once(login: Client):
    log_in(login)
    answer = authenticate(login, ADA)
    assert (answer.error_code, answer.error_message) == (
        34,
        "SaslAuthenticate request received after successful authentication",
    )
    assert login.ask(METADATA, VERSION).brokers


# -- handshake v0 --------------------------------------------------------------------------


def test_raw_tokens_behind_handshake_v0(login: Client):
    assert shake(login, version=0).error_code == 0
    assert send_token(login, ADA) == b""
    assert login.ask(METADATA, VERSION).brokers


@pytest.mark.parametrize("token", [b"\0ada\0no", b"", b"x"])
def test_a_raw_token_that_is_wrong_has_no_answer(login: Client, token: bytes):
    shake(login, version=0)
    login.send_raw(struct.pack(">i", len(token)) + token)
    assert login.is_disconnected()


def test_a_raw_token_is_small(login: Client):
    shake(login, version=0)
    login.send_raw(struct.pack(">i", 524_289) + bytes(8))
    assert login.is_disconnected()


# -- SCRAM ---------------------------------------------------------------------------------


def test_scram_by_the_users_of_the_metadata(login: Client, login_node: RunningNode):
    port = login_node.node.bound[1].port
    with Client(type(login.sock)()) as admin:
        admin.sock.connect(("127.0.0.1", port))
        upsertion = ScramCredentialUpsertion(
            name="eve",
            mechanism=1,
            iterations=4096,
            salt=b"salt of eve",
            salted_password=salted("e", b"salt of eve"),
        )
        altered = admin.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
        assert altered.results[0].error_code == 0
    client = ScramExchange("SCRAM-SHA-256", "eve", "e")
    shake(login, "SCRAM-SHA-256")
    challenge = authenticate(login, client.first())
    assert (challenge.error_code, challenge.session_lifetime_ms) == (0, 0)
    done = authenticate(login, client.next(bytes(challenge.auth_bytes)))
    client.finish(bytes(done.auth_bytes))
    assert done.session_lifetime_ms == 0  # the limit is PLAIN's
    assert login.ask(METADATA, VERSION).brokers
    # Without an end of the session there is no other login.
    assert shake(login, "SCRAM-SHA-256").error_code == 34
    assert login.ask(METADATA, VERSION).brokers


@pytest.mark.parametrize("user", ["ada", "mallory"])
def test_scram_does_not_tell_whether_a_user_exists(login: Client, user: str):
    client = ScramExchange("SCRAM-SHA-256", user, "x")
    shake(login, "SCRAM-SHA-256")
    challenge = authenticate(login, client.first())
    refused = authenticate(login, client.next(bytes(challenge.auth_bytes)))
    assert refused.error_code == 58
    assert refused.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism"
        " SCRAM-SHA-256"
    )
    assert login.is_disconnected()


# -- again (KIP-368) -----------------------------------------------------------------------


def test_a_client_logs_in_again_amid_its_requests(login: Client, login_node: RunningNode):
    """KAFKA-19561: what was asked before is answered, in order."""
    log_in(login)
    before = counts(login_node).succeeded_again.total()
    requests = [(METADATA, VERSION)] * 5
    sent = [login.send(*one) for one in requests]
    sent.append(login.send(SaslHandshakeRequest(mechanism="PLAIN"), 1))
    sent.append(login.send(SaslAuthenticateRequest(auth_bytes=ADA), 2))
    sent += [login.send(*one) for one in requests]
    keys = [(3, VERSION)] * 5 + [(17, 1), (36, 2)] + [(3, VERSION)] * 5
    answers = [login.receive(*one) for one in keys]
    assert [correlation for correlation, _ in answers] == sent
    assert answers[6][1].session_lifetime_ms == 60_000
    assert counts(login_node).succeeded_again.total() == before + 1


def test_a_second_login_has_to_wait_a_second(login: Client):
    log_in(login)
    log_in(login)
    assert shake(login).error_code == 34
    assert login.ask(METADATA, VERSION).brokers


def test_another_mechanism_is_not_answered(login: Client):
    log_in(login)
    assert shake(login, "SCRAM-SHA-256").error_code == 0
    login.send(SaslAuthenticateRequest(auth_bytes=b"n,,n=ada,r=x"), 2)
    assert login.is_disconnected()


def test_another_principal_is_refused(login: Client, login_node: RunningNode):
    log_in(login)
    before = counts(login_node).failed_again.total()
    shake(login)
    answer = authenticate(login, BOB)
    assert answer.error_code == 58
    assert answer.error_message == (
        "Cannot change principals during re-authentication from User.ada: User.bob"
    )
    assert login.is_disconnected()
    assert counts(login_node).failed_again.total() == before + 1


def test_between_handshake_and_token_nothing_else_comes(login: Client):
    log_in(login)
    shake(login)
    assert login.ask(FindCoordinatorRequest(key="g"), 3).error_code == 34
    assert login.is_disconnected()


def test_a_session_that_has_expired_ends_at_the_next_request(
    login: Client, login_node: RunningNode
):
    log_in(login)
    assert login_node.node.broker is not None
    (connection,) = login_node.node.broker.listener.connections
    connection.session.expires_ms = 0
    login.send(METADATA, VERSION)
    assert login.is_disconnected()
    eventually(lambda: counts(login_node).expired["LOGIN"], "it is counted")


# -- what is told of it --------------------------------------------------------------------


def test_failures_are_logged_without_secrets(
    login: Client, login_node: RunningNode, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG")
    before = counts(login_node).failed["LOGIN", "PLAIN"]
    shake(login)
    authenticate(login, b"\0ada\0planted-secret")
    assert login.is_disconnected()
    assert counts(login_node).failed["LOGIN", "PLAIN"] == before + 1
    assert "a login by PLAIN failed: Authentication failed: Invalid username" in caplog.text
    assert "planted-secret" not in caplog.text


@dataclass
class Sink:
    logins: list[LoginEvent] = field(default_factory=list)

    def record(self, event: AuditEvent) -> None:
        raise AssertionError("no authorizer is there")

    def record_login(self, event: LoginEvent) -> None:
        self.logins.append(event)


def test_every_login_is_told_to_the_audit_sink(
    login_node: RunningNode, monkeypatch: pytest.MonkeyPatch
):
    assert login_node.node.broker is not None
    sink = Sink()
    monkeypatch.setattr(login_node.node.broker.listener.logins, "sink", sink)
    with login_node.connect() as client:
        log_in(client)
        log_in(client)
    with login_node.connect() as client:
        shake(client)
        authenticate(client, b"\0ada\0planted-secret")
    with login_node.connect() as client:
        shake(client, "GSSAPI")
    told = [(one.principal, one.mechanism, one.succeeded) for one in sink.logins]
    assert told == [
        ("User:ada", "PLAIN", True),
        ("User:ada", "PLAIN", True),
        (None, "PLAIN", False),
        (None, "unknown", False),
    ]
    assert all((one.host, one.listener) == ("127.0.0.1", "LOGIN") for one in sink.logins)
    assert all(bool(one.reason) is not one.succeeded for one in sink.logins)
    assert "planted-secret" not in repr(sink.logins)


# -- the deadline --------------------------------------------------------------------------


def with_deadline(node: RunningNode, monkeypatch: pytest.MonkeyPatch, timeout_ms: int) -> None:
    """New connections have so long to log in."""
    assert node.node.broker is not None
    securities = node.node.broker.listener.securities
    quick = replace(securities["LOGIN"], login_timeout_ms=timeout_ms)
    monkeypatch.setitem(securities, "LOGIN", quick)


def login_of(node: RunningNode, client: Client) -> Any:
    assert node.node.broker is not None
    port = client.sock.getsockname()[1]
    found = [one for one in node.node.broker.listener.connections if one.client_port == port]
    return found[0].login


def test_a_client_that_does_not_log_in_is_disconnected_at_its_deadline(
    login_node: RunningNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    assert login_node.node.broker is not None
    sink = Sink()
    monkeypatch.setattr(login_node.node.broker.listener.logins, "sink", sink)
    caplog.set_level(logging.INFO, "fencepost")
    with_deadline(login_node, monkeypatch, 100)
    before = counts(login_node).failed["LOGIN", "unknown"]
    with login_node.connect() as silent:
        assert silent.is_disconnected()
    assert counts(login_node).failed["LOGIN", "unknown"] == before + 1
    assert [(one.mechanism, one.succeeded) for one in sink.logins] == [("unknown", False)]
    assert "no login within 100 ms (fencepost.sasl.login.timeout.ms)" in caplog.text


def test_half_a_login_is_none(login_node: RunningNode, login: Client):
    shake(login)
    before = counts(login_node).failed["LOGIN", "PLAIN"]
    login_node._thread.call(login_of(login_node, login)._time_over)
    assert login.is_disconnected()
    assert counts(login_node).failed["LOGIN", "PLAIN"] == before + 1


def test_a_client_that_has_logged_in_has_no_deadline(login_node: RunningNode, login: Client):
    login.ask(VERSIONS, 3)
    assert login_of(login_node, login)._deadline is not None
    log_in(login)
    assert login_of(login_node, login)._deadline is None, "or it would end a session in use"
    log_in(login)
    assert login_of(login_node, login)._deadline is None


def test_a_client_that_leaves_in_the_delay_is_forgotten(login: Client, login_node: RunningNode):
    shake(login)
    login.send(SaslAuthenticateRequest(auth_bytes=b"\0ada\0no"), 2)
    login.close()
    assert login_node.node.broker is not None
    listener = login_node.node.broker.listener
    eventually(lambda: not listener.connections, "the connection is gone")


@pytest.mark.parametrize("cut", range(1, 30, 3))
def test_truncated_logins_harm_nobody(login_node: RunningNode, cut: int):
    whole = struct.pack(">ihhih", 19, 17, 1, 1, -1) + struct.pack(">h", 5) + b"PLAIN"
    with login_node.connect() as client:
        client.send_raw(whole[:cut])
    with login_node.connect() as client:
        log_in(client)
