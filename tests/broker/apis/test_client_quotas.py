"""Client quotas on one node: set and described over the wire, and what their clients are told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from fencepost.broker.net.client_quotas import EXEMPT
from fencepost.wire.api import ApiVersionsRequest, MetadataRequest, response_class
from fencepost.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryDataRequest,
    OpData,
)
from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from fencepost.wire.frame import encode_request

from ...waiting import eventually
from ..conftest import Client, RunningNode
from ..topic_requests import batch, fetch_request, make_topic, produce, produce_request

THROTTLING_QUOTA_EXCEEDED = 89
MINUTE_MS = 60_000
NUMBERS = count()
ASK = ApiVersionsRequest(client_software_name="t", client_software_version="1")


def alter(
    client: Client, entity: dict[str, str | None], validate_only: bool = False, **values: Any
) -> tuple[int, str | None]:
    """Set or, with None, remove the quotas of one entity."""
    ops = [
        OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()
    ]
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    entry = EntryDataRequest(entity=parts, ops=ops)
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
    (result,) = client.ask(request, 1).entries
    return result.error_code, result.error_message


def described(
    client: Client, *components: tuple[str, int, str | None], strict: bool = False
) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=how, match=match)
            for kind, how, match in components
        ],
        strict=strict,
    )
    answer = client.ask(request, 1)
    assert answer.error_code == 0
    return {
        tuple((one.entity_type, one.entity_name) for one in entry.entity): {
            one.key: one.value for one in entry.values
        }
        for entry in answer.entries
    }


class Limited:
    """A client id with quotas of its own, and its clients."""

    def __init__(self, node: RunningNode, client: Client) -> None:
        assert node.node.broker is not None
        self._node = node
        self._client = client
        self._keys: set[str] = set()
        self.client_id = f"client-{next(NUMBERS)}"

    def set(self, **values: float) -> None:
        """Set quotas; they are in force then."""
        assert alter(self._client, {"client-id": self.client_id}, **values) == (0, None)
        self._keys |= set(values)
        eventually(lambda: values.keys() <= self._in_force(), "the quotas are in force")

    def _in_force(self) -> set[str]:
        """The keys of the quotas that are set on the node, for whichever client."""
        quotas = self._node.node.broker.quotas.quotas
        return set() if quotas is None else {one.key for one in quotas.all if one}

    @contextmanager
    def connect(self) -> Iterator[Client]:
        """One of its clients."""
        with self._node.connect() as client:
            client.client_id = self.client_id
            yield client

    def remove(self) -> None:
        with self._node.connect() as client:
            alter(client, {"client-id": self.client_id}, **dict.fromkeys(self._keys))
        eventually(lambda: not self._in_force(), "no quota is in force")


@pytest.fixture
def limited(node: RunningNode, client: Client) -> Iterator[Limited]:
    made = Limited(node, client)
    yield made
    made.remove()


# -- setting and describing ------------------------------------------------------------------------


def test_quotas_are_described_as_they_are_set(client: Client) -> None:
    both, user = {"user": "u", "client-id": None}, {"user": "u"}
    address = {"ip": "10.0.0.1"}
    assert alter(client, both, producer_byte_rate=5.0, request_percentage=0.5) == (0, None)
    assert alter(client, user, consumer_byte_rate=6.0) == (0, None)
    assert alter(client, address, connection_creation_rate=7.0) == (0, None)
    both_key = (("client-id", None), ("user", "u"))
    both_values = {"producer_byte_rate": 5.0, "request_percentage": 0.5}
    user_entry = {(("user", "u"),): {"consumer_byte_rate": 6.0}}
    eventually(lambda: len(described(client)) == 3, "all are known")
    assert described(client, ("user", 0, "u")) == {both_key: both_values, **user_entry}
    assert described(client, ("user", 0, "u"), strict=True) == user_entry
    assert described(client, ("client-id", 1, None)) == {both_key: both_values}
    assert described(client, ("client-id", 2, None), ("user", 2, None)) == {both_key: both_values}
    assert described(client, ("user", 1, None)) == {}
    assert described(client, ("ip", 2, None)) == {
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 7.0}
    }
    assert alter(client, both, producer_byte_rate=None, request_percentage=None) == (0, None)
    assert alter(client, user, consumer_byte_rate=None) == (0, None)
    assert alter(client, address, connection_creation_rate=None) == (0, None)
    eventually(lambda: not described(client), "all are gone")


def test_what_is_only_checked_is_not_set(client: Client) -> None:
    assert alter(client, {"user": "u"}, True, producer_byte_rate=5.0) == (0, None)
    assert alter(client, {"user": "u"}, True, producer_byte_rate=0.5)[0] == 42
    assert described(client) == {}


# -- bytes -----------------------------------------------------------------------------------------


def is_muted(node: RunningNode, client: Client) -> bool:
    """Whether what the client asks next stays without an answer while another client is served."""
    client.send(ASK, 3)
    assert node.node.broker is not None
    connections = node.node.broker.listener.connections
    waits = lambda: any(one._wait is not None for one in list(connections))  # noqa: E731
    with node.connect() as bystander:
        for _ in range(3):
            assert bystander.ask(ASK, 3).error_code == 0
    return node.call(waits)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_producer_is_told_and_muted(
    node: RunningNode, client: Client, limited: Limited, version: int
) -> None:
    topic = make_topic(client)
    limited.set(producer_byte_rate=100.0)
    with limited.connect() as other:
        request = produce_request(topic, batch(b"x" * 20_000), version)
        answer = other.ask(request, version)
        size_bytes = len(encode_request(request, version, 1, limited.client_id)) - 4
        assert answer.responses[0].partition_responses[0].error_code == 0, "it is written"
        # Over at least ten seconds, and at most as many more as the test has lasted.
        expected_ms = (size_bytes / 10 - 100) / 100 * 10_000
        assert expected_ms - 5_000 < answer.throttle_time_ms <= expected_ms + 1
        assert is_muted(node, other)


def test_a_run_of_produces_is_charged(node: RunningNode, client: Client, limited: Limited) -> None:
    topic = make_topic(client)
    limited.set(producer_byte_rate=1_000.0)
    with limited.connect() as other:
        times_ms = [
            other.ask(produce_request(topic, batch(b"x" * 2_500)), 9).throttle_time_ms
            for _ in range(4)
        ]
        assert times_ms[:3] == [0, 0, 0]
        assert 0 < times_ms[3] < MINUTE_MS
        assert is_muted(node, other)


def test_a_producer_without_answers_is_muted(
    node: RunningNode, client: Client, limited: Limited
) -> None:
    topic = make_topic(client)
    limited.set(producer_byte_rate=100.0)
    with limited.connect() as other:
        other.send(produce_request(topic, batch(b"x" * 20_000), acks=0), 9)
        assert is_muted(node, other)


@pytest.mark.parametrize("version", [6, 11, 12, 17])
def test_a_consumer_is_sent_nothing_and_told_for_how_long(
    node: RunningNode, client: Client, limited: Limited, version: int
) -> None:
    topic = make_topic(client)
    for _ in range(3):
        assert produce(client, topic, batch(b"x" * 9_000)).error_code == 0
    limited.set(consumer_byte_rate=1_000.0)
    with limited.connect() as other:
        first = other.ask(fetch_request(topic, 0, version=version), version)
        assert first.throttle_time_ms == 0, "a window's worth is allowed"
        records = first.responses[0].partitions[0].records
        assert 9_000 <= len(records) <= 10_000, "and no more is sent"
        second = other.ask(fetch_request(topic, 1, version=version), version)
        assert 0 < second.throttle_time_ms < MINUTE_MS
        assert second.responses == []
        assert is_muted(node, other)


def test_a_client_with_another_budget_is_not_affected(
    node: RunningNode, client: Client, limited: Limited
) -> None:
    topic = make_topic(client)
    limited.set(producer_byte_rate=1.0)
    request = produce_request(topic, batch(b"x" * 2_000))
    assert client.ask(request, 9).throttle_time_ms == 0
    with limited.connect() as other:
        assert other.ask(request, 9).throttle_time_ms > MINUTE_MS
        assert is_muted(node, other)
    assert client.ask(request, 9).throttle_time_ms == 0


def test_a_muted_client_that_leaves_is_noticed(
    node: RunningNode, client: Client, limited: Limited
) -> None:
    assert node.node.broker is not None
    connections = node.node.broker.listener.connections
    topic = make_topic(client)
    limited.set(producer_byte_rate=1.0)
    before = len(connections)
    with limited.connect() as other:
        assert other.ask(produce_request(topic, batch(b"x" * 999)), 9).throttle_time_ms > 0
        assert len(connections) == before + 1
    eventually(lambda: len(connections) == before, "it is gone")


# -- time ------------------------------------------------------------------------------------------


def test_time_is_charged_and_its_throttle_is_at_most_a_window(
    node: RunningNode, client: Client, limited: Limited
) -> None:
    limited.set(request_percentage=0.000_001)
    with limited.connect() as other:
        assert other.ask(MetadataRequest(), 12).throttle_time_ms == 1_000
        assert is_muted(node, other)


# -- partitions ------------------------------------------------------------------------------------


def creation(name: str, partitions: int) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[topic])


def test_what_changes_partitions_is_refused_in_debt(
    node: RunningNode, client: Client, limited: Limited
) -> None:
    limited.set(controller_mutation_rate=0.01)  # a bucket of 0.11
    with limited.connect() as other:
        first = other.ask(creation("quota-first", 3), 7)
    assert (first.topics[0].error_code, first.throttle_time_ms) == (0, 0)
    with limited.connect() as other:
        second = other.ask(creation("quota-second", 1), 7)
        assert second.topics[0].error_code == THROTTLING_QUOTA_EXCEEDED
        assert second.topics[0].error_message is None
        assert 280_000 < second.throttle_time_ms < 290_000
        assert is_muted(node, other)
    with limited.connect() as other:
        more = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="quota-first", count=4, assignments=None)],
            timeout_ms=9_000,
        )
        answer = other.ask(more, 3)
        assert answer.results[0].error_code == THROTTLING_QUOTA_EXCEEDED
        assert answer.throttle_time_ms > 0
    with limited.connect() as other:
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="quota-first")], timeout_ms=9_000)
        answer = other.ask(gone, 6)
        assert answer.responses[0].error_code == THROTTLING_QUOTA_EXCEEDED
        assert answer.throttle_time_ms > 0
    with limited.connect() as other:
        older = other.ask(DeleteTopicsRequest(topic_names=["quota-first"], timeout_ms=9_000), 4)
        assert older.responses[0].error_code == 0, "which knows no such error, and is served"
        assert 570_000 < older.throttle_time_ms < 600_000
        assert is_muted(node, other)


# -- every API -------------------------------------------------------------------------------------

NEEDS_MORE: dict[int, dict[str, Any]] = {
    0: {"acks": -1, "timeout_ms": 1_000},
    29: {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    },
}
"""What a request needs besides its defaults to be answered, by API key."""


def test_every_api_says_for_how_long_its_client_is_throttled(
    node: RunningNode, client: Client, limited: Limited
) -> None:
    """The newest version of each request, as it is by default; errors are answers, too."""
    assert node.node.broker is not None
    limited.set(request_percentage=0.000_001)
    routes = node.node.broker.listener.routes
    wrong: dict[str, object] = {}
    charged = 0
    for key in sorted(routes):
        if key in EXEMPT:
            continue
        route = routes[key]
        request = route.request_class(**NEEDS_MORE.get(key, {}))
        if not hasattr(response_class(key)(), "throttle_time_ms"):
            continue
        with limited.connect() as other:
            other.sock.settimeout(20)
            try:
                answer = other.ask(request, route.max_version)
            except (EOFError, TimeoutError, ConnectionError) as error:
                wrong[route.name] = error
                continue
            charged += 1
            if answer.throttle_time_ms != 1_000:
                wrong[route.name] = answer.throttle_time_ms
    assert not wrong
    assert charged > 50
