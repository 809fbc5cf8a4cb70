"""Clients of four libraries log in by every mechanism, and are refused in words they understand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

pytest.importorskip("joserfc")

from fencepost.client import Admin, ClientConfig, Cluster
from fencepost.client.errors import AuthenticationFailed
from fencepost.testing.access_tokens import AUDIENCE, ISSUER, AccessTokenIssuer
from fencepost.testing.client_logins import ClientLogin

from ...waiting import DEADLINE_S, eventually
from ..conftest import RunningNode
from .scram_users import add_users

aiokafka = pytest.importorskip("aiokafka")
confluent_kafka = pytest.importorskip("confluent_kafka")
kafka_python = pytest.importorskip("kafka")
AdminClient = pytest.importorskip("confluent_kafka.admin").AdminClient

pytestmark = pytest.mark.clients

MODULES = "org.apache.kafka.common.security"
TRUSTED, STRANGER = AccessTokenIssuer("k"), AccessTokenIssuer("k")
USER, PASSWORD = "ada", "pass,word=1"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TIMEOUT_S = DEADLINE_S
PATIENCE_MS = 1_500
"""kafka-python tries a login again for so long, although it is refused."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("login")
    keys = directory / "keys.json"
    keys.write_bytes(TRUSTED.key_set())
    oauth = "listener.name.login.oauthbearer.sasl.oauthbearer"
    plain = f'{MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    config = {
        "listeners": "LOGIN://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connection.failed.authentication.delay.ms": "10",
        "connections.max.reauth.ms": "2000",
        "listener.name.login.plain.sasl.jaas.config": plain,
        f"{oauth}.jwks.endpoint.url": f"file://{keys}",
        "fencepost.sasl.oauthbearer.allowed.urls": f"file://{keys}",
        f"{oauth}.expected.audience": AUDIENCE,
        f"{oauth}.expected.issuer": ISSUER,
    }
    running = RunningNode(directory / "data", config)
    try:
        add_users(running.node.bound[1].port, {USER: PASSWORD})
        yield running.bootstrap_servers
    finally:
        running.close()


def login(servers: str, mechanism: str, **changes: Any) -> ClientLogin:
    found = ClientLogin(servers, "SASL_PLAINTEXT", mechanism, USER, PASSWORD)
    if mechanism == "OAUTHBEARER":
        found = replace(found, username=None, password=None, token=TRUSTED.token())
    return replace(found, **changes)


def ours(one: ClientLogin, tmp_path: Path) -> bool:
    if one.mechanism == "OAUTHBEARER":
        path = tmp_path / "token"
        path.write_text(str(one.token))
        props = {
            "bootstrap.servers": one.bootstrap_servers,
            "security.protocol": one.protocol,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": f"file://{path}",
        }
    else:
        props = one.properties()
    try:
        with Cluster(config=ClientConfig.from_props(props)) as cluster:
            return bool(Admin(cluster).describe_cluster().brokers)
    except AuthenticationFailed:
        return False


def librdkafka(one: ClientLogin, tmp_path: Path) -> bool:
    failed: list[Any] = []
    admin = AdminClient({**one.confluent(), "error_cb": failed.append, "log_level": 0})
    refused = confluent_kafka.KafkaError._AUTHENTICATION

    def is_over() -> bool:
        admin.poll(0)
        try:
            return bool(admin.list_topics(timeout=0.5).brokers)
        except confluent_kafka.KafkaException:
            return any(error.code() == refused for error in failed)

    eventually(is_over, "it is let in or refused")
    return not any(error.code() == refused for error in failed)


def of_aiokafka(one: ClientLogin, tmp_path: Path) -> bool:
    async def connect() -> bool:
        producer = aiokafka.AIOKafkaProducer(**one.aiokafka())
        try:
            await producer.start()
            return bool(await producer.client.fetch_all_metadata())
        except aiokafka.errors.KafkaConnectionError:
            return False
        finally:
            await producer.stop()

    return asyncio.run(connect())


def of_kafka_python(one: ClientLogin, tmp_path: Path, patience_ms: int = PATIENCE_MS) -> bool:
    try:
        admin = kafka_python.KafkaAdminClient(
            **one.kafka_python(), bootstrap_timeout_ms=patience_ms
        )
    except (kafka_python.errors.SaslAuthenticationFailedError, kafka_python.errors.KafkaError):
        return False
    try:
        return bool(admin.describe_cluster()["brokers"])
    finally:
        admin.close()


CLIENTS: dict[str, Callable[[ClientLogin, Path], bool]] = {
    "ours": ours,
    "librdkafka": librdkafka,
    "aiokafka": of_aiokafka,
    "kafka-python": of_kafka_python,
}
LET_IN = CLIENTS | {
    "kafka-python": partial(of_kafka_python, patience_ms=int(DEADLINE_S * 1000)),
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_logs_in(servers: str, client: str, mechanism: str, tmp_path: Path):
    assert LET_IN[client](login(servers, mechanism), tmp_path)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_is_refused(servers: str, client: str, mechanism: str, tmp_path: Path):
    wrong = {"token": STRANGER.token()} if mechanism == "OAUTHBEARER" else {"password": "no"}
    assert not CLIENTS[client](login(servers, mechanism, **wrong), tmp_path)


def test_unsecured_tokens_are_refused(servers: str, tmp_path: Path):
    props = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
        ' unsecuredLoginStringClaim_sub="ada";',
    }
    with (
        pytest.raises(AuthenticationFailed, match="invalid_token"),
        Cluster(config=ClientConfig.from_props(props)) as cluster,
    ):
        Admin(cluster).describe_cluster()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_librdkafka_stays_logged_in(servers: str, mechanism: str):
    """Sessions last two seconds; what it has fetched by then goes on (KIP-368)."""
    failed: list[Any] = []
    one = login(servers, mechanism)
    admin = AdminClient({**one.confluent(), "error_cb": failed.append, "log_level": 0})
    until = monotonic() + 3

    def is_over() -> bool:
        assert admin.list_topics(timeout=TIMEOUT_S).brokers
        return monotonic() > until

    eventually(is_over, "three seconds")
    assert not failed
