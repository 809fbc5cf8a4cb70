"""The wall clock of a broker is set forward and back while clients are logged in.

What a credential says of its end is of the wall clock, and is looked at when a client logs in, for
the first time or again. How long the session lasts from then on is reckoned with the monotonic
clock, so setting the time ends no session and prolongs none. Apache Kafka does the same.
"""

from __future__ import annotations

import contextlib
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("joserfc")

from fencepost.client.protocol.sasl import ScramExchange
from fencepost.testing.access_tokens import AUDIENCE, ISSUER, AccessTokenIssuer
from fencepost.wire.api.create_delegation_token import CreateDelegationTokenRequest
from fencepost.wire.api.metadata import MetadataRequest
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateRequest
from fencepost.wire.api.sasl_handshake import SaslHandshakeRequest

from ...waiting import eventually
from ..conftest import RunningNode
from ..listener_fixtures import Client

DAY_S = 86_400
GOOD_FOR_S = 3_600
TOLERANCE_MS = 120_000
"""What a slow machine may take between two steps of a test."""
ISSUED_BY = AccessTokenIssuer()
MODULES = "org.apache.kafka.common.security"


class WallClock:
    """The wall clock of this process: `ahead_s` of the true one."""

    def __init__(self) -> None:
        self.ahead_s = 0
        self._true_ns = time.time_ns

    def time_ns(self) -> int:
        return self._true_ns() + self.ahead_s * 1_000_000_000


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    clock = WallClock()
    monkeypatch.setattr(time, "time_ns", clock.time_ns)
    return clock


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    directory = tmp_path_factory.mktemp("clock")
    keys = directory / "keys.json"
    keys.write_bytes(ISSUED_BY.key_set())
    running = RunningNode(directory / "data", configs(keys))
    yield running
    running.close()


def configs(keys: Path) -> dict[str, str]:
    login = "listener.name.login"
    return {
        "listeners": "LOGIN://127.0.0.1:0",
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN,SCRAM-SHA-256",
        "connection.failed.authentication.delay.ms": "5",
        "delegation.token.secret.key": "s",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "fencepost.sasl.oauthbearer.allowed.urls": f"file://{keys}",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        f"{login}.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_a="b";',
        f"{login}.plain.connections.max.reauth.ms": str(GOOD_FOR_S * 1000),
    }


def access_token(good_for_s: int = GOOD_FOR_S) -> bytes:
    token = ISSUED_BY.token(exp=int(time.time()) + good_for_s)
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def log_in(client: Client, token: bytes, mechanism: str = "OAUTHBEARER") -> Any:
    """The answer to a login, of the first or a further one on the connection."""
    assert client.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    return client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)


def is_served(client: Client) -> bool:
    try:
        return bool(client.ask(MetadataRequest(topics=[]), 12).brokers)
    except (EOFError, ConnectionError):
        return False


def is_refused(client: Client, token: bytes) -> bool:
    """Whether the broker says that the access token is invalid, and then refuses the login."""
    answer = log_in(client, token)
    if b"invalid_token" not in answer.auth_bytes:
        return False
    return bool(client.ask(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2).error_code == 58)


@pytest.mark.parametrize("step_s", [DAY_S, -DAY_S])
def test_a_session_does_not_go_by_the_wall_clock(node: RunningNode, wall: WallClock, step_s: int):
    for token, mechanism in ((access_token(), "OAUTHBEARER"), (b"\0a\0b", "PLAIN")):
        with node.connect() as client:
            wall.ahead_s = 0
            assert log_in(client, token, mechanism).error_code == 0
            eventually(lambda: len(sessions(node)) == 1, "the others have left")
            (session,) = sessions(node)
            before = session.expires_ms
            now_ms = node.call(node.node.broker.listener.logins.now_ms)
            assert 0 < session.lifetime_ms(now_ms) <= GOOD_FOR_S * 1000
            wall.ahead_s = step_s
            assert is_served(client)
            assert session.expires_ms == before


def test_a_session_ends_in_its_time_though_the_clock_was_set_back(
    node: RunningNode, wall: WallClock
):
    with node.connect() as client:
        assert log_in(client, access_token(good_for_s=2)).error_code == 0
        wall.ahead_s = -DAY_S
        eventually(lambda: not is_served(client), "the end of the session")


def test_a_token_that_has_expired_by_the_clock_as_it_is_logs_in_no_more(
    node: RunningNode, wall: WallClock
):
    """Neither a new client nor one that logs in again; one that does not try stays."""
    token = access_token()
    with node.connect() as stays, node.connect() as again, node.connect() as late:
        assert log_in(stays, token).error_code == log_in(again, token).error_code == 0
        wall.ahead_s = DAY_S
        assert is_refused(late, token)
        assert is_refused(again, token)
        assert not is_served(again)
        assert is_served(stays)


def test_after_a_step_back_a_token_is_good_for_longer(node: RunningNode, wall: WallClock):
    """The client is told for how long, by the clock as it is now."""
    token, good_ms, day_ms = access_token(), GOOD_FOR_S * 1000, DAY_S * 1000
    with node.connect() as client:
        first = log_in(client, token).session_lifetime_ms
        assert good_ms - TOLERANCE_MS < first <= good_ms
        wall.ahead_s = -DAY_S
        second = log_in(client, token).session_lifetime_ms
        assert good_ms + day_ms - TOLERANCE_MS < second <= good_ms + day_ms
        wall.ahead_s = 0
        assert is_served(client)


def test_delegation_tokens_go_by_the_clock_at_the_login(node: RunningNode, wall: WallClock):
    with node.connect() as owner, node.connect() as stays, node.connect() as late:
        assert log_in(owner, b"\0a\0b", "PLAIN").error_code == 0
        token = owner.ask(CreateDelegationTokenRequest(max_lifetime_ms=GOOD_FOR_S * 1000), 3)
        assert token.error_code == 0
        eventually(lambda: token.token_id in node.node.image.tokens, "the token is known")
        assert log_in_by_scram(stays, token).error_code == 0
        wall.ahead_s = DAY_S
        assert log_in_by_scram(late, token).error_code == 58
        assert is_served(stays)
        (session,) = [one for one in sessions(node) if one.principal.token_authenticated]
        now_ms = node.call(node.node.broker.listener.logins.now_ms)
        assert 0 < session.lifetime_ms(now_ms) <= GOOD_FOR_S * 1000


def log_in_by_scram(client: Client, token: Any) -> Any:
    """The last answer to a login by a delegation token."""
    password = b64encode(token.hmac).decode()
    exchange = ScramExchange("SCRAM-SHA-256", token.token_id, password, token_authenticated=True)
    answer = log_in(client, exchange.first(), "SCRAM-SHA-256")
    with contextlib.suppress(EOFError):
        return client.ask(SaslAuthenticateRequest(auth_bytes=exchange.next(answer.auth_bytes)), 2)
    return answer


def sessions(node: RunningNode) -> list[Any]:
    listener = node.node.broker.listener
    return [one.session for one in node.call(lambda: list(listener.connections))]
