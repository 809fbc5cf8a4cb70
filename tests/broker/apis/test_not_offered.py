"""What is not offered is answered as by Apache Kafka without security: disabled, none, refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.broker.apis import list_config_resources
from fencepost.machines.image import BrokerImage, ClusterImage, ListenerImage
from fencepost.machines.image.persistent import PersistentMap
from fencepost.runtime.requests.access import Access
from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.api.create_delegation_token import CreateDelegationTokenRequest
from fencepost.wire.api.list_config_resources import ListConfigResourcesRequest
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

from ..conftest import RunningNode
from ..listener_fixtures import Client
from ..not_offered import CASES, by_user
from ..topic_requests import make_topic


@pytest.mark.parametrize(
    ("request_", "versions", "answer"),
    CASES,
    ids=[f"{number}-{type(one[0]).__name__}" for number, one in enumerate(CASES)],
)
def test_what_is_not_offered_is_answered_as_by_kafka_without_it(
    client: Client, request_: Message, versions: range, answer: Message
) -> None:
    for version in versions:
        assert by_user(client.ask(request_, version)) == by_user(answer)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([2], {2}),
        ([4, 4], {4}),
        ([8], {8}),
        ([16, 32], set()),
        ([], {2, 4, 8}),
    ],
)
def test_config_resources_are_the_topics_and_brokers(
    node: RunningNode, client: Client, types: list[int], expected: set[int]
) -> None:
    names = {make_topic(client).name for _ in range(2)}
    answer = client.ask(ListConfigResourcesRequest(resource_types=types), 1)
    assert answer.error_code == 0
    listed = [(one.resource_type, one.resource_name) for one in answer.config_resources]
    assert len(listed) == len(set(listed))
    assert {kind for kind, _ in listed} == expected
    assert names <= {name for kind, name in listed if kind == 2} or 2 not in expected
    brokers = {(kind, str(node.node.config.node_id)) for kind in {4, 8} & expected}
    assert {one for one in listed if one[0] != 2} == brokers


@pytest.mark.parametrize("kind", [0, 1, 99])
def test_a_type_of_resources_that_does_not_exist_lists_nothing(client: Client, kind: int) -> None:
    answer = client.ask(ListConfigResourcesRequest(resource_types=[2, kind]), 1)
    assert (answer.error_code, answer.config_resources) == (35, [])


def test_a_fenced_broker_is_listed_among_config_resources() -> None:
    listeners = (ListenerImage("PLAINTEXT", "broker", 9, 0),)
    fenced = BrokerImage(5, 1, Uuid.ZERO, listeners, (), None, True, False, ())
    image = ClusterImage(brokers=PersistentMap({5: fenced}))
    context: Any = SimpleNamespace(api_version=1, listener_name="PLAINTEXT")
    asked = ListConfigResourcesRequest(resource_types=[4])
    metadata: Any = SimpleNamespace(image=image)
    with pytest.raises(StopIteration) as done:
        next(list_config_resources.handle(context, asked, access=Access(), metadata=metadata))
    assert [one.resource_name for one in done.value.value.config_resources] == ["5"]


def test_a_token_is_refused_to_an_owner_of_the_type_that_was_sent(client: Client) -> None:
    request = CreateDelegationTokenRequest(owner_principal_type="Group", owner_principal_name="a")
    answer = client.ask(request, 3)
    assert (answer.principal_type, answer.principal_name) == ("Group", "a")


def test_client_metrics_are_none(client: Client) -> None:
    answer = client.ask(ListConfigResourcesRequest(), 0)
    assert (answer.error_code, answer.config_resources) == (0, [])


@pytest.mark.parametrize("key", sorted({one[0].api_key for one in CASES} | {74}))
def test_it_is_advertised(client: Client, key: int) -> None:
    assert key in {one.api_key for one in client.ask(ApiVersionsRequest(), 0).api_keys}
