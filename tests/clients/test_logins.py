"""Every kind of listener, by every mechanism, with every client: each user logs in and writes, and
wrong credentials are refused.

Java's clients and franz-go do the same in the interop suite.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("cryptography")
pytest.importorskip("joserfc")

import confluent_kafka
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from fencepost.client import Admin, ClientConfig, ClientError, Cluster as Client, Producer
from fencepost.testing import Cluster, ClusterSecurity
from fencepost.testing.client_logins import ClientLogin

from ..waiting import DEADLINE_S

pytestmark = [pytest.mark.clients]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
KINDS = [(protocol, one) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for one in MECHANISMS]
LISTENERS: list[tuple[str, str | None]] = [*KINDS, ("SSL", None)]
REFUSAL_MS = 1_000
"""How long a client may try that keeps trying after a refusal."""


@pytest.fixture(scope="module")
def clusters() -> Iterator[Callable[[str], Cluster]]:
    """A secured cluster per protocol, made when it is first asked for."""
    made: dict[str, Cluster] = {}

    def of(protocol: str) -> Cluster:
        if protocol not in made:
            cluster = made[protocol] = Cluster(
                faults=False,
                security=ClusterSecurity(protocol, mechanisms=MECHANISMS),
                auto_create_topics_enable=False,
            )
            cluster.start()
            with cluster.security.client() as client:
                Admin(client).create_topic("words", 1)
                Admin(client).wait_for_topic("words")
        return made[protocol]

    yield of
    for cluster in made.values():
        cluster.close()


def write_by_ours(login: ClientLogin, word: bytes) -> bool:
    props = {**login.properties(), "default.api.timeout.ms": str(REFUSAL_MS)}
    try:
        with Client(config=ClientConfig.from_props(props)) as client, Producer(client) as producer:
            delivery = producer.send("words", word)
            producer.flush()
            return delivery.result() >= 0
    except ClientError:
        return False


def write_by_confluent(login: ClientLogin, word: bytes) -> bool:
    problems: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer(
        {**login.confluent(), "error_cb": problems.append, "message.timeout.ms": 1000 * DEADLINE_S}
    )
    done: list[bool] = []
    producer.produce("words", word, on_delivery=lambda error, _: done.append(error is None))
    while not done and not any(one.code() == one._ALL_BROKERS_DOWN for one in problems):
        producer.poll(0.05)
    if not done:
        producer.purge()
        producer.flush(DEADLINE_S)
    return done[0]


def write_by_aiokafka(login: ClientLogin, word: bytes) -> bool:
    async def write() -> None:
        producer = AIOKafkaProducer(**login.aiokafka(), request_timeout_ms=1000 * int(DEADLINE_S))
        try:
            await producer.start()
            await producer.send_and_wait("words", word)
        finally:
            await producer.stop()

    try:
        asyncio.run(write())
    except AiokafkaError:
        return False
    return True


def write_by_kafka_python(login: ClientLogin, word: bytes) -> bool:
    try:
        limit_ms = 1000 * int(DEADLINE_S) if word else REFUSAL_MS
        producer = KafkaProducer(**login.kafka_python(), bootstrap_timeout_ms=limit_ms)
    except KafkaPythonError:
        return False
    try:
        producer.send("words", word).get(timeout=DEADLINE_S)
    except KafkaPythonError:
        return False
    finally:
        producer.close(0)
    return True


CLIENTS = [write_by_ours, write_by_confluent, write_by_aiokafka, write_by_kafka_python]


@pytest.mark.parametrize("write", CLIENTS)
@pytest.mark.parametrize(("protocol", "mechanism"), LISTENERS)
def test_a_user_logs_in_and_writes(
    clusters: Callable[[str], Cluster],
    protocol: str,
    mechanism: str | None,
    write: Callable[[ClientLogin, bytes], bool],
):
    login = clusters(protocol).security.login("app", mechanism)
    assert write(login, uuid.uuid4().bytes)


@pytest.mark.parametrize("write", CLIENTS)
@pytest.mark.parametrize(("protocol", "mechanism"), LISTENERS)
def test_wrong_credentials_are_refused(
    clusters: Callable[[str], Cluster],
    protocol: str,
    mechanism: str | None,
    write: Callable[[ClientLogin, bytes], bool],
):
    security = clusters(protocol).security
    if mechanism is None:
        login = security.stranger()
    else:
        login = security.login("app", mechanism, password="not that one")
    assert not write(login, b"")


@pytest.mark.parametrize("write", CLIENTS)
def test_a_user_without_permission_writes_nothing(
    clusters: Callable[[str], Cluster], write: Callable[[ClientLogin, bytes], bool]
):
    assert not write(clusters("SASL_SSL").security.login("guest", "SCRAM-SHA-256"), b"")
