"""Client quotas of Fencepost and of Apache Kafka 4.4.0: rows, texts and throttle times.

Every test runs against both. Throttle times depend on when requests come, and on the size that a
broker gives an answer, so they are held against Kafka's formula with room for both.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from fencepost.client.connection import Connection
from fencepost.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryDataRequest,
    OpData,
)
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from fencepost.wire.api.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

from ..broker.topic_requests import batch, fetch_request, produce_request
from ..waiting import DEADLINE_MS, eventually
from .apache import run_tool

pytestmark = [pytest.mark.interop, pytest.mark.slow]

Entity = tuple[tuple[str, str | None], ...]
Ops = tuple[tuple[str, float | None], ...]
EXCEEDED = 89
PAYLOAD_BYTES = 40_000

ROWS: tuple[tuple[Entity, Ops], ...] = (
    ((), (("producer_byte_rate", 1.0),)),
    ((("topic", "t"),), (("producer_byte_rate", 1.0),)),
    ((("user", ""),), (("producer_byte_rate", 1.0),)),
    ((("ip", None), ("user", "u")), (("producer_byte_rate", 1.0),)),
    ((("ip", "no such host.example"),), (("connection_creation_rate", 1.0),)),
    ((("ip", "10.1.2.3"),), (("producer_byte_rate", 1.0),)),
    ((("ip", "10.1.2.4"),), (("connection_creation_rate", 2.5),)),
    ((("ip", "10.1.2.5"),), (("connection_creation_rate", 2.0**31),)),
    ((("user", "a"),), (("connection_creation_rate", 1.0),)),
    ((("user", "b"),), (("nothing", 1.0),)),
    ((("user", "c"),), (("producer_byte_rate", -1.0),)),
    ((("user", "d"),), (("consumer_byte_rate", 1.5),)),
    ((("user", "e"),), (("consumer_byte_rate", 1e19),)),
    ((("user", "f"),), (("request_percentage", 0.5), ("producer_byte_rate", 0.5))),
    ((("user", "g"),), (("request_percentage", None),)),
    ((("user", "h"), ("client-id", None)), (("controller_mutation_rate", 0.5),)),
    ((("user", "i"),), (("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0))),
    ((("client-id", "x"), ("user", None)), (("producer_byte_rate", 1.0),)),
    ((("user", None), ("client-id", "x")), (("producer_byte_rate", 2.0),)),
)  # fmt: skip


def alter(broker: Connection, *rows: tuple[Entity, Ops], validate_only: bool = False) -> Any:
    entries = [
        EntryDataRequest(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[OpData(key=key, value=v or 0.0, remove=v is None) for key, v in ops],
        )
        for entity, ops in rows
    ]
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    return broker.request(request, 1).entries


def described(broker: Connection, *components: tuple[str, int, str | None], strict: bool) -> Any:
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=how, match=match)
            for kind, how, match in components
        ],
        strict=strict,
    )
    answer = broker.request(request, 1)
    assert answer.error_code == 0
    return {
        frozenset((one.entity_type, one.entity_name) for one in entry.entity): {
            one.key: one.value for one in entry.values
        }
        for entry in answer.entries
    }


def test_rows_are_refused_and_accepted_with_kafkas_texts(broker: Connection) -> None:
    told = {
        frozenset((part.entity_type, part.entity_name) for part in one.entity): (
            one.error_code,
            one.error_message,
        )
        for one in alter(broker, *ROWS)
    }
    bad = 42
    twice = "Ignoring duplicate entity ClientQuotaEntity(entries={%s})"
    expected = {
        (): (bad, "Invalid empty client quota entity"),
        (("topic", "t"),): (bad, "Unhandled client quota entity type: topic"),
        (("user", ""),): (bad, "Empty user not supported"),
        (("ip", None), ("user", "u")): (bad, "Invalid quota entity combination, IP entity should"
            "not be combined with User or ClientId"),
        (("ip", "no such host.example"),): (bad, "no such host.example is not a valid IP or"
            " resolvable host."),
        (("ip", "10.1.2.3"),): (bad, "Invalid configuration key producer_byte_rate"),
        (("ip", "10.1.2.4"),): (bad, "connection_creation_rate cannot be a fractional value."),
        (("ip", "10.1.2.5"),): (bad, "Proposed value for connection_creation_rate is too large for"
            " an INT."),
        (("user", "a"),): (bad, "Invalid configuration key connection_creation_rate"),
        (("user", "b"),): (bad, "Invalid configuration key nothing"),
        (("user", "c"),): (bad, "Quota producer_byte_rate must be greater than 0"),
        (("user", "d"),): (bad, "consumer_byte_rate cannot be a fractional value."),
        (("user", "e"),): (bad, "Proposed value for consumer_byte_rate is too large for a LONG."),
        (("user", "f"),): (bad, "producer_byte_rate cannot be a fractional value."),
        (("user", "g"),): (0, None),
        (("user", "h"), ("client-id", None)): (0, None),
        (("user", "i"),): (bad, twice % "user=i"),
        (("client-id", "x"), ("user", None)): (bad, twice % "client-id=x, user=null"),
    }  # fmt: skip
    assert told == {frozenset(entity): row for entity, row in expected.items()}
    both = frozenset({("user", "h"), ("client-id", None)})
    first = frozenset({("user", None), ("client-id", "x")})
    eventually(lambda: len(described(broker, strict=False)) == 2, "both are set")
    assert described(broker, strict=False) == {
        both: {"controller_mutation_rate": 0.5},
        first: {"producer_byte_rate": 1.0},
    }
    removals: list[tuple[Entity, Ops]] = [
        (tuple(both), (("controller_mutation_rate", None),)),
        (tuple(first), (("producer_byte_rate", None),)),
    ]
    assert {one.error_code for one in alter(broker, *removals)} == {0}
    eventually(lambda: not described(broker, strict=False), "all are gone")


def test_filters_find_the_same(broker: Connection) -> None:
    entities: list[Entity] = [
        (("user", "u"),),
        (("user", None),),
        (("client-id", "c"), ("user", "u")),
        (("client-id", None), ("user", "u")),
        (("client-id", "c"),),
    ]
    key = "consumer_byte_rate"
    assert {one.error_code for one in alter(broker, *((e, ((key, 5.0),)) for e in entities))} == {0}
    eventually(lambda: len(described(broker, strict=False)) == 5, "all are set")
    filters: dict[tuple[tuple[tuple[str, int, str | None], ...], bool], set[int]] = {
        ((("user", 0, "u"),), False): {0, 2, 3},
        ((("user", 0, "u"),), True): {0},
        ((("user", 1, None),), False): {1},
        ((("user", 2, None),), True): {0, 1},
        ((("user", 2, None), ("client-id", 2, None)), True): {2, 3},
        ((("client-id", 1, None),), False): {3},
        ((("client-id", 2, None),), True): {4},
        ((("ip", 2, None),), False): set(),
        ((), True): set(),
    }
    for (components, strict), found in filters.items():
        expected = {frozenset(entities[number]) for number in found}
        assert set(described(broker, *components, strict=strict)) == expected, components
    alter(broker, *((entity, ((key, None),)) for entity in entities))
    eventually(lambda: not described(broker, strict=False), "all are gone")


# -- throttle times --------------------------------------------------------------------------------


@pytest.fixture
def topic(broker: Connection) -> Any:
    name = f"quota-{uuid.uuid4().hex[:8]}"
    made = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)],
        timeout_ms=20_000,
    )
    (result,) = broker.request(made, 7).topics
    assert result.error_code == 0
    return SimpleNamespace(name=name, topic_id=result.topic_id)


class Limited(NamedTuple):
    """A client, and what its quotas are set for."""

    connection: Connection
    client_id: str

    def request(self, request: Any, version: int) -> Any:
        return self.connection.request(request, version)


@pytest.fixture
def another(bootstrap: str) -> Iterator[Limited]:
    """A connection of a client id of its own."""
    host, _, port = bootstrap.rpartition(":")
    client_id = f"limited-{uuid.uuid4().hex[:8]}"
    with Connection(host, int(port), client_id=client_id, timeout_ms=DEADLINE_MS) as connection:
        yield Limited(connection, client_id)


def limit(broker: Connection, client: Limited, **values: float | None) -> None:
    (row,) = alter(broker, ((("client-id", client.client_id),), tuple(values.items())))
    assert row.error_code == 0
    found = frozenset({("client-id", client.client_id)})
    wanted = {key: value for key, value in values.items() if value is not None}
    eventually(
        lambda: described(broker, strict=False).get(found, {}) == wanted, "the quota is in force"
    )


@pytest.mark.parametrize("rate", [100, 1_000, 2_500])
def test_a_producers_throttle_time(
    broker: Connection, another: Limited, topic: Any, rate: int
) -> None:
    limit(broker, another, producer_byte_rate=float(rate))
    request = produce_request(topic, batch(b"x" * PAYLOAD_BYTES))
    answer = another.request(request, 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    expected_ms = (PAYLOAD_BYTES / 10 - rate) / rate * 10_000
    assert expected_ms <= answer.throttle_time_ms <= expected_ms * 1.02 + 20_000 / rate * 10
    limit(broker, another, producer_byte_rate=None)


@pytest.mark.parametrize("rate", [5_000, 6_000])
def test_a_consumers_throttle_time(
    broker: Connection, another: Limited, topic: Any, rate: int
) -> None:
    records = batch(b"x" * PAYLOAD_BYTES)
    for _ in range(3):
        broker.request(produce_request(topic, records), 9)
    limit(broker, another, consumer_byte_rate=float(rate))
    # One batch each: what Kafka sends of a second one is not whole, and counts.
    one = {"version": 12, "max_bytes": 1 << 20, "partition_max_bytes": len(records)}
    first = another.request(fetch_request(topic, 0, **one), 12)
    assert first.throttle_time_ms == 0
    assert len(first.responses[0].partitions[0].records) == len(records)
    second = another.request(fetch_request(topic, 1, **one), 12)
    assert second.responses == []
    expected_ms = (2 * len(records) / 10 - rate) / rate * 10_000
    assert expected_ms - 1_000 <= second.throttle_time_ms <= expected_ms + 4_000_000 / rate
    limit(broker, another, consumer_byte_rate=None)


def test_partitions_that_change_too_often(broker: Connection, another: Limited) -> None:
    limit(broker, another, controller_mutation_rate=0.1)
    name = f"quota-{uuid.uuid4().hex[:8]}"

    def creation(name: str) -> CreateTopicsRequest:
        topic = CreatableTopic(name=name, num_partitions=3, replication_factor=1)
        return CreateTopicsRequest(topics=[topic], timeout_ms=20_000)

    first = another.request(creation(name), 7)
    assert (first.topics[0].error_code, first.throttle_time_ms) == (0, 0)
    answer = another.request(creation(f"{name}-2"), 7)
    (row,) = answer.topics
    assert row.error_code == EXCEEDED
    assert row.error_message is None
    # 3 - 1.1 tokens are missing.
    assert 10_000 < answer.throttle_time_ms <= 19_000
    limit(broker, another, controller_mutation_rate=None)


@pytest.mark.parametrize("kind", ["users", "clients", "ips"])
def test_kafka_configs(bootstrap: str, kind: str) -> None:
    name, key = (
        ("10.9.8.7" if kind == "ips" else "someone"),
        {
            "users": "producer_byte_rate",
            "clients": "request_percentage",
            "ips": "connection_creation_rate",
        }[kind],
    )
    tool = ("configs", "--bootstrap-server", bootstrap, "--entity-type", kind)
    named = (*tool, "--entity-name", name)
    run_tool(*named, "--alter", "--add-config", f"{key}=12")
    said = run_tool(*named, "--describe").stdout
    assert f"{key}=12.0" in said and name in said
    run_tool(*named, "--alter", "--delete-config", key)
    assert key not in run_tool(*named, "--describe").stdout
