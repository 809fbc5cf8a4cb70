"""SASL OAUTHBEARER against Apache Kafka's broker, with unsecured tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.client.aio.connection import AsyncConnection
from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.client.errors import AuthenticationFailed
from fencepost.client.producer import Producer
from fencepost.client.tokens import access_token

from . import apache
from .conftest import jars_or_skip

pytestmark = [pytest.mark.interop, pytest.mark.slow]

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
JAAS = f'{MODULE} unsecuredLoginStringClaim_sub="ada";'


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of Apache Kafka that wants tokens."""
    jars_or_skip(apache.KAFKA)
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "listener.name.plaintext.oauthbearer.sasl.jaas.config": JAAS,
        "connections.max.reauth.ms": "3600000",
    }
    with apache.apache_broker(tmp_path_factory.mktemp("apache"), **properties) as broker:
        yield broker.bootstrap_servers


def config(servers: str, **more: str) -> ClientConfig:
    props = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": JAAS,
    }
    return ClientConfig.from_props({**props, **more})


def test_records_are_written_with_an_unsecured_token(servers: str):
    chosen = config(servers)
    with Cluster(config=chosen) as cluster:
        Admin(cluster).create_topic("by-token", 1)
        Admin(cluster).wait_for_topic("by-token")
        with Producer(cluster) as producer:
            delivery = producer.send("by-token", b"x")
        assert delivery.result() == 0
        # The session ends with the token, at the latest.
        ends = [one.session_ends_at for one in cluster._connections.values()]
        assert ends and None not in ends


def test_a_session_is_renewed_on_the_connection_that_there_is(servers: str):
    with Cluster(config=config(servers)) as cluster:
        assert Admin(cluster).describe_cluster().brokers
        before = dict(cluster._connections)
        for connection in before.values():
            connection.session_ends_at = 0.0  # the time has come
        assert Admin(cluster).describe_cluster().brokers
        used = [one for one in before.values() if one.session_ends_at]
        assert used and all(one.is_open for one in used), "it is renewed, and the broker goes on"
        assert dict(cluster._connections) == before


def test_a_token_from_a_file_and_one_that_the_broker_refuses(servers: str, tmp_path: Path):
    file = tmp_path / "token"
    chosen = config(
        servers,
        **{
            "sasl.jaas.config": f"{MODULE} ;",
            "sasl.oauthbearer.token.endpoint.url": f"file://{file}",
        },
    )
    file.write_text(access_token(config(servers).security) or "")
    with Cluster(config=chosen) as cluster:
        assert cluster.describe([]) == []
    stale = config(servers, **{"sasl.jaas.config": JAAS.replace(
        "required", 'required unsecuredLoginLifetimeSeconds="-600"'
    )})  # fmt: skip
    file.write_text(access_token(stale.security) or "")
    with Cluster(config=chosen) as cluster, pytest.raises(AuthenticationFailed, match="invalid"):
        cluster.describe([])


def test_the_asyncio_client_has_tokens_too(servers: str):
    async def connect() -> bool:
        host, _, port = servers.rpartition(":")
        connection = await AsyncConnection.open(config(servers), host, int(port))
        try:
            return connection.is_open
        finally:
            connection.close()

    assert asyncio.run(connect())
