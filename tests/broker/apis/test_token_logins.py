"""SCRAM users and delegation tokens of a live node: they log in, and their secrets stay in it."""

from __future__ import annotations

import hashlib
import logging
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import urlopen

import pytest

from fencepost.client.connection import Connection
from fencepost.client.errors import AuthenticationFailed
from fencepost.client.security import Security
from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from fencepost.wire.api.create_delegation_token import CreateDelegationTokenRequest
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.api.describe_delegation_token import DescribeDelegationTokenRequest
from fencepost.wire.api.expire_delegation_token import ExpireDelegationTokenRequest
from fencepost.wire.api.renew_delegation_token import RenewDelegationTokenRequest

from ..conftest import RunningNode

PASSWORD, TOKEN_SECRET, SALT = "hush-password", "hush-token-secret", b"hush-salt"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
CONFIG = {
    "listeners": "LOGIN://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "connection.failed.authentication.delay.ms": "5",
    "listener.name.login.scram-sha-256.sasl.jaas.config": MODULE,
    "listener.name.login.scram-sha-512.sasl.jaas.config": MODULE,
    "delegation.token.secret.key": TOKEN_SECRET,
    "fencepost.metrics.listener": "127.0.0.1:0",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    node = RunningNode(tmp_path_factory.mktemp("tokens") / "data", CONFIG)
    yield node
    node.close()


def salted(mechanism: int = 1) -> bytes:
    name = "sha256" if mechanism == 1 else "sha512"
    return hashlib.pbkdf2_hmac(name, PASSWORD.encode(), SALT, 4096)


def alter(running: RunningNode, *users: str, gone: bool = False) -> None:
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=user, mechanism=1) for user in users if gone],
        upsertions=[
            ScramCredentialUpsertion(
                name=user, mechanism=1, iterations=4096, salt=SALT, salted_password=salted()
            )
            for user in users
            if not gone
        ],
    )
    port = next(one.port for one in running.node.bound if one.name == "PLAINTEXT")
    with Connection("127.0.0.1", port) as connection:
        assert {one.error_code for one in connection.request(request).results} == {0}


def logged_in(running: RunningNode, user: str, password: str = PASSWORD, **more: Any) -> Connection:
    security = Security(
        **{
            "protocol": "SASL_PLAINTEXT",
            "mechanism": "SCRAM-SHA-256",
            "username": user,
            "password": password,
            **more,
        }
    )
    return Connection("127.0.0.1", running.port, timeout_ms=20_000, security=security)


def by_token(running: RunningNode, token: Any, mechanism: str = "SCRAM-SHA-512") -> Connection:
    password = b64encode(token.hmac).decode()
    return logged_in(
        running, token.token_id, password, mechanism=mechanism, token_authenticated=True
    )


def test_a_deleted_user_cannot_log_in(running: RunningNode) -> None:
    alter(running, "eve")
    logged_in(running, "eve").close()
    with pytest.raises(AuthenticationFailed):
        logged_in(running, "eve", "another password")
    alter(running, "eve", gone=True)
    with pytest.raises(AuthenticationFailed):
        logged_in(running, "eve")


def test_a_token_logs_its_owner_in_until_it_is_gone(running: RunningNode) -> None:
    alter(running, "ada")
    with logged_in(running, "ada") as ada:
        token = ada.request(CreateDelegationTokenRequest(max_lifetime_ms=-1))
        assert (token.error_code, token.principal_name) == (0, "ada")
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            with by_token(running, token, mechanism) as client:
                created = client.request(CreateDelegationTokenRequest(max_lifetime_ms=-1))
                assert (created.error_code, created.principal_name) == (64, "ada")
                for request in (
                    DescribeDelegationTokenRequest(owners=None),
                    RenewDelegationTokenRequest(hmac=token.hmac),
                    ExpireDelegationTokenRequest(hmac=token.hmac),
                ):
                    assert client.request(request).error_code == 64
        with pytest.raises(AuthenticationFailed):
            logged_in(running, token.token_id, b64encode(token.hmac).decode())
        (seen,) = ada.request(DescribeDelegationTokenRequest(owners=None)).tokens
        assert (seen.token_id, seen.hmac) == (token.token_id, token.hmac)
        answer = ada.request(
            ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
        )
        assert answer.error_code == 0
        with pytest.raises(AuthenticationFailed):
            by_token(running, token)


def test_a_session_by_a_token_ends_with_the_token(running: RunningNode) -> None:
    alter(running, "ada")
    with logged_in(running, "ada") as ada:
        token = ada.request(CreateDelegationTokenRequest(max_lifetime_ms=60_000))
    with by_token(running, token):
        assert running.node.broker is not None
        listener = running.node.broker.listener
        (session,) = [
            one.session
            for one in running.call(lambda: list(listener.connections))
            if one.principal.token_authenticated
        ]
        lasts_ms = session.lifetime_ms(running.call(listener.logins.now_ms))
        assert 0 < lasts_ms <= 60_000, "of a clock that began elsewhere"


def test_no_secret_leaves_the_node(
    node_factory: Callable[..., RunningNode],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Logs of all levels, a handler's failure among them; values, configs and metrics."""
    caplog.set_level(logging.DEBUG)
    running = node_factory(**{key.replace(".", "_"): value for key, value in CONFIG.items()})
    alter(running, "ada")
    with logged_in(running, "ada") as ada:
        token = ada.request(CreateDelegationTokenRequest(max_lifetime_ms=-1))
        by_token(running, token).close()
        resource = DescribeConfigsResource(
            resource_type=4, resource_name="1", configuration_keys=None
        )
        described = ada.request(DescribeConfigsRequest(resources=[resource]))
        assert len(described.results[0].configs) > 100
        with pytest.raises(AuthenticationFailed):
            logged_in(running, "ada", PASSWORD[:-1])
        with monkeypatch.context() as broken:
            assert running.node.controller is not None
            broken.setattr(running.node.controller.host, "submit", None)
            renew = RenewDelegationTokenRequest(hmac=token.hmac)
            assert ada.request(renew).error_code == -1
    image = running.node.image
    credential = image.scram["ada", 1]
    secrets = {
        PASSWORD.encode(),
        TOKEN_SECRET.encode(),
        salted(),
        credential.stored_key,
        credential.server_key,
        token.hmac,
    }
    formatter = logging.Formatter()
    shown = [
        *(formatter.format(record) for record in caplog.records),
        repr(image),
        repr(token),
        repr(described),
        *map(repr, vars(running.node).values()),
        metrics_of(running),
    ]
    assert any("Traceback" in text for text in shown) and any("ada" in text for text in shown)
    for secret in secrets:
        forms = {repr(secret)[2:-1], secret.hex(), b64encode(secret).decode()}
        for text in shown:
            assert not any(form in text for form in forms), text[:300]


def metrics_of(running: RunningNode) -> str:
    observation = running.node.observation
    with urlopen(f"http://127.0.0.1:{observation.bound.port}/metrics", timeout=20) as answer:
        return str(answer.read().decode())
