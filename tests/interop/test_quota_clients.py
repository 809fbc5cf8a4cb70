"""Clients of others that have a quota: they are told of it, wait, and write all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.client.connection import Connection
from fencepost.testing import Cluster
from fencepost.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryDataRequest,
    OpData,
)
from fencepost.wire.api.describe_client_quotas import DescribeClientQuotasRequest

from ..waiting import DEADLINE_MS, DEADLINE_S, eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]

LIMITED = "limited"
RATE = 20_000.0
"""Over ten seconds at least: the test writes a little more, and waits for about a second."""
RECORD_BYTES = 11_000
RECORDS = 20


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Cluster(faults=False, config={"auto.create.topics.enable": "true"}) as cluster:
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        with Connection(host, int(port), timeout_ms=DEADLINE_MS) as connection:
            entry = EntryDataRequest(
                entity=[EntityData(entity_type="client-id", entity_name=LIMITED)],
                ops=[OpData(key="producer_byte_rate", value=RATE, remove=False)],
            )
            connection.request(AlterClientQuotasRequest(entries=[entry], validate_only=False), 1)
            asked = DescribeClientQuotasRequest()
            eventually(lambda: connection.request(asked, 1).entries, "the quota is in force")
            yield cluster.bootstrap_servers


def write(servers: str, client_id: str) -> list[float]:
    """Throttle times in seconds that a producer of librdkafka was told while it wrote all."""
    from confluent_kafka import Producer

    told: list[float] = []
    written: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "client.id": client_id,
            "throttle_cb": lambda event: told.append(event.throttle_time),
            "linger.ms": 0,
        }
    )
    for _ in range(RECORDS):
        producer.produce(
            f"of-{client_id}", b"x" * RECORD_BYTES, callback=lambda error, _: written.append(error)
        )
        producer.flush(DEADLINE_S)
    assert written == [None] * RECORDS
    return told


def test_a_producer_of_librdkafka(servers: str) -> None:
    bystander = write(servers, "bystander")
    told = write(servers, LIMITED)
    assert not bystander
    assert told and max(told) > 0


def test_a_producer_of_kafka_python(servers: str) -> None:
    kafka = pytest.importorskip("kafka")
    times: dict[str, float] = {}
    for client_id in ("other-bystander", LIMITED):
        producer = kafka.KafkaProducer(bootstrap_servers=servers, client_id=client_id, linger_ms=0)
        try:
            for _ in range(RECORDS):
                producer.send("of-python", b"x" * RECORD_BYTES).get(timeout=DEADLINE_S)
            times[client_id] = max(
                value
                for group in producer.metrics().values()
                for name, value in group.items()
                if name == "throttle-time-max"
            )
        finally:
            producer.close()
    assert times["other-bystander"] <= 0
    assert times[LIMITED] > 0
