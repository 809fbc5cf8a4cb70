"""Our own clients renew their session on the connection that they have (KIP-368)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from time import monotonic

import pytest

from fencepost.broker.cluster.peers import Peers
from fencepost.client import ClientConfig
from fencepost.client.aio.connection import AsyncConnection
from fencepost.client.connection import Connection
from fencepost.client.connection_core import ConnectionCore
from fencepost.client.errors import AuthenticationFailed, ConnectionFailed
from fencepost.wire.api.metadata import MetadataRequest

from ...waiting import DEADLINE_S
from ..conftest import RunningNode

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
HOUR_MS = 3_600_000
EVERYTHING = MetadataRequest(topics=None)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A node where `ada` logs in by PLAIN, for an hour."""
    config = {
        "listeners": "LOGIN://127.0.0.1:0",
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "connection.failed.authentication.delay.ms": "10",
        "connections.max.reauth.ms": str(HOUR_MS),
        "listener.name.login.plain.sasl.jaas.config": f'{MODULE} required user_ada="secret";',
    }
    running = RunningNode(tmp_path_factory.mktemp("reauth"), config)
    yield running
    running.close()


def config_of(node: RunningNode) -> ClientConfig:
    return ClientConfig.from_props(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ada",
            "sasl.password": "secret",
        }
    )


def renewals(node: RunningNode) -> tuple[int, int]:
    """How many sessions were renewed, and how many were not."""
    assert node.node.broker is not None
    counts = node.node.broker.listener.logins.counts
    return sum(counts.succeeded_again.values()), sum(counts.failed_again.values())


def expire(connection: ConnectionCore) -> None:
    assert connection.session_ends_at is not None
    assert connection.session_ends_at < monotonic() + HOUR_MS / 1000, "before the broker's end"
    connection.session_ends_at = 0.0


def forget_password(connection: ConnectionCore) -> None:
    connection.security = replace(connection.security, password="another")


def test_requests_on_their_way_survive_a_renewed_session(node: RunningNode):
    before, _ = renewals(node)
    with Connection.configured(config_of(node), "127.0.0.1", node.node.bound[0].port) as one:
        descriptor = one.fileno()
        first = one.send(EVERYTHING)
        expire(one)
        assert one.is_open, "it is good for more"
        second = one.send(EVERYTHING)
        assert all(one.receive(token).brokers for token in (second, first))
        assert one.fileno() == descriptor
        assert one.session_ends_at is not None and one.session_ends_at > monotonic()
    assert renewals(node)[0] == before + 1


def test_a_login_that_is_refused_ends_the_connection(node: RunningNode):
    with Connection.configured(config_of(node), "127.0.0.1", node.node.bound[0].port) as one:
        expire(one)
        forget_password(one)
        with pytest.raises(AuthenticationFailed):
            one.send(EVERYTHING)
        assert not one.is_open
        with pytest.raises(ConnectionFailed):
            one.send(EVERYTHING)


def test_an_asyncio_client_holds_requests_until_the_session_is_renewed(node: RunningNode):
    before, _ = renewals(node)

    async def talk() -> None:
        one = await AsyncConnection.open(config_of(node), "127.0.0.1", node.node.bound[0].port)
        asked = [one.send(EVERYTHING)]
        expire(one)
        asked += [one.send(EVERYTHING) for _ in range(3)]
        asked[2].cancel()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        cancelled = answers.pop(2)
        assert isinstance(cancelled, asyncio.CancelledError)
        assert all(not isinstance(one, BaseException) and one.brokers for one in answers)
        assert (await one.request(EVERYTHING)).brokers
        one.close()

    asyncio.run(talk())
    assert renewals(node)[0] == before + 1


def test_an_asyncio_clients_requests_fail_with_their_session(node: RunningNode):
    async def talk() -> None:
        one = await AsyncConnection.open(config_of(node), "127.0.0.1", node.node.bound[0].port)
        expire(one)
        forget_password(one)
        asked = [one.send(EVERYTHING) for _ in range(2)]
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(answer, AuthenticationFailed)
        assert not one.is_open

    _, before = renewals(node)
    asyncio.run(talk())
    assert renewals(node)[1] == before + 1


def test_requests_that_wait_for_a_session_fail_when_the_connection_is_closed(node: RunningNode):
    async def talk() -> None:
        one = await AsyncConnection.open(config_of(node), "127.0.0.1", node.node.bound[0].port)
        expire(one)
        asked = one.send(EVERYTHING)
        one.close()
        with pytest.raises(ConnectionFailed):
            await asked

    asyncio.run(talk())


def test_a_peers_session_is_renewed_before_a_request_though_no_timer_has_run(node: RunningNode):
    """As in a loop that was held up until after the session's end, and reads before its timers."""

    async def talk() -> None:
        loop = asyncio.get_running_loop()
        security = config_of(node).security
        peers = Peers(
            loop, "peer", max_response_bytes=1 << 20, backoff_ms=1, security=lambda: security
        )

        async def ask() -> None:
            told: asyncio.Future[object] = loop.create_future()
            at, done = ("127.0.0.1", node.node.bound[0].port), told.set_result
            peers.send(at, EVERYTHING, done, done, int(DEADLINE_S * 1000))
            answer = await told
            assert not isinstance(answer, str), answer

        try:
            await ask()
            (peer,) = peers._peers.values()
            (connection,) = peer._connections
            connection._session_ends_at = monotonic()
            await ask()
            assert peer._connections == {connection}
            assert connection._session_ends_at > monotonic(), "the new session's end"
        finally:
            peers.close()

    before, failed = renewals(node)
    asyncio.run(talk())
    assert renewals(node) == (before + 1, failed)
