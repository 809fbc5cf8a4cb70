"""A node with the authorizer: its clients may do what the ACLs say, from the next request on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker.apis.acls import ACLS_PER_PIECE, _describe
from fencepost.broker.config.keys.authorization import STANDARD_AUTHORIZER
from fencepost.machines.authorizer.filters import AclFilter
from fencepost.machines.image.acls import Acl
from fencepost.runtime.requests.permissions import OPERATIONS
from fencepost.wire.api import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    InitProducerIdRequest,
    MetadataRequest,
)
from fencepost.wire.api.create_acls import AclCreation
from fencepost.wire.api.delete_acls import DeleteAclsFilter
from fencepost.wire.api.metadata import MetadataRequestTopic
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

from ...waiting import DEADLINE_S
from ..conftest import Client, RunningNode
from ..topic_requests import batch, fetch, fetch_request, make_topic, produce, produce_request

ALL, READ, WRITE, CREATE, ALTER, DESCRIBE, IDEMPOTENT_WRITE = 2, 3, 4, 5, 7, 8, 12
DENY, ALLOW = 2, 3
CLUSTER = {"resource_type": 4, "resource_name": "kafka-cluster"}
ME = "User:ANONYMOUS"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
    running = RunningNode(tmp_path_factory.mktemp("node") / "data", config)
    yield running
    running.close()


def decided(node: RunningNode, request: Message) -> Any:
    """What the controller decides for its own node, which may do everything."""
    done = threading.Event()
    replies: list[tuple[ErrorCode, Any]] = []

    def ask() -> None:
        controller = node.node.controller
        assert controller is not None
        controller.service.serve(request, lambda *reply: (replies.append(reply), done.set()))

    node.call(ask)
    assert done.wait(DEADLINE_S)
    ((error, response),) = replies
    assert error is ErrorCode.NONE
    return response


def acl(operation: int, permission: int = ALLOW, **fields: Any) -> AclCreation:
    chosen = {"resource_type": 2, "principal": ME, "host": "127.0.0.1", **fields}
    return AclCreation(operation=operation, permission_type=permission, **chosen)


def everything(**fields: Any) -> dict[str, Any]:
    chosen = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return {**chosen, **fields}


class Acls:
    def __init__(self, node: RunningNode) -> None:
        self._node = node

    def add(self, *creations: AclCreation) -> None:
        answer = decided(self._node, CreateAclsRequest(creations=list(creations)))
        assert {one.error_code for one in answer.results} <= {0}

    def remove(self, **fields: Any) -> None:
        wanted = DeleteAclsFilter(**everything(**fields))
        decided(self._node, DeleteAclsRequest(filters=[wanted]))


@pytest.fixture
def acls(node: RunningNode) -> Iterator[Acls]:
    made = Acls(node)
    yield made
    made.remove()


@pytest.fixture
def topic(client: Client, acls: Acls) -> Any:
    """A topic that the client may not do anything with any more."""
    acls.add(acl(CREATE, **CLUSTER), acl(ALL, resource_name="*"))
    made = make_topic(client)
    acls.remove()
    return made


def metadata(client: Client, name: str) -> Any:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    (answer,) = client.ask(request, 12).topics
    return answer


def test_a_client_sees_what_it_may_describe(client: Client, acls: Acls, topic: Any):
    there, missing = metadata(client, topic.name), metadata(client, "missing")
    assert there.error_code == 29 and there.topic_id == Uuid.ZERO
    missing.name = there.name
    assert there == missing
    acls.add(acl(READ, resource_name=topic.name[:3], resource_pattern_type=4))
    there = metadata(client, topic.name)
    assert there.error_code == 0 and there.topic_authorized_operations == (1 << 3) + (1 << 8)
    acls.add(acl(ALL, resource_name="*", principal="User:*", host="127.0.0.0/8"))
    bits = sum(1 << code for code in OPERATIONS[2])  # type: ignore[index]
    assert metadata(client, topic.name).topic_authorized_operations == bits
    acls.add(acl(DESCRIBE, DENY, resource_name=topic.name, host="*"))
    assert metadata(client, topic.name).error_code == 29


@pytest.mark.parametrize("requests", [1, 5])
@pytest.mark.parametrize("version", [9, 13])
def test_a_producer_writes_until_its_right_is_revoked(
    client: Client, acls: Acls, topic: Any, requests: int, version: int
):
    request = produce_request(topic, batch(b"value"), version)

    def errors() -> set[int]:
        """Of requests that come together, so that some are taken in blocks."""
        for _ in range(requests):
            client.send(request, version)
        answers = [client.receive(0, version)[1] for _ in range(requests)]
        return {one.responses[0].partition_responses[0].error_code for one in answers}

    assert errors() == {29}
    acls.add(acl(WRITE, resource_name=topic.name))
    assert errors() == {0}
    assert errors() == {0}
    acls.add(acl(WRITE, DENY, resource_name=topic.name))
    assert errors() == {29}
    acls.remove(permission_type=DENY)
    assert errors() == {0}
    acls.remove()
    assert errors() == {29}


def test_a_session_hears_that_its_right_is_revoked_even_of_a_quiet_partition(
    client: Client, acls: Acls, topic: Any
):
    acls.add(acl(ALL, resource_name="*"))
    assert produce(client, topic, batch(b"value")).error_code == 0
    begun = client.ask(fetch_request(topic, 1, session_epoch=0), 12)
    assert begun.session_id

    def go_on(epoch: int) -> list[int]:
        request = fetch_request(topic, session_id=begun.session_id, session_epoch=epoch)
        answer = client.ask(request, 12)
        return [part.error_code for one in answer.responses for part in one.partitions]

    assert go_on(1) == [] and go_on(2) == []
    acls.remove()
    assert go_on(3) == [29]
    acls.add(acl(READ, resource_name=topic.name))
    assert go_on(4) in ([], [0])
    assert [part.error_code for part in fetch(client, topic, 0)] == [0]


def test_producer_ids_are_for_clients_that_may_write_to_some_topic(client: Client, acls: Acls):
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)

    def error() -> int:
        return int(client.ask(request, 4).error_code)

    assert error() == 31
    for fields in (
        {"operation": IDEMPOTENT_WRITE, **CLUSTER},
        {"operation": WRITE, "resource_name": "any"},
        {"operation": WRITE, "resource_name": "any", "resource_pattern_type": 4},
    ):
        acls.add(acl(**fields))
        assert error() == 0
        acls.remove()
    acls.add(acl(WRITE, resource_name="any"), acl(WRITE, DENY, resource_name="*"))
    assert error() == 31


def test_acls_are_changed_and_seen_by_clients_with_the_right(client: Client, acls: Acls):
    create = CreateAclsRequest(creations=[acl(READ, resource_name="x")] * 2)
    delete = DeleteAclsRequest(
        filters=[DeleteAclsFilter(**everything(resource_name_filter="x"))] * 2
    )
    describe = DescribeAclsRequest(**everything(resource_name_filter="x", pattern_type_filter=2))
    assert [one.error_code for one in client.ask(create, 3).results] == [31, 31]
    assert [one.error_code for one in client.ask(delete, 3).filter_results] == [31, 31]
    assert client.ask(describe, 3).error_code == 31
    acls.add(acl(ALTER, **CLUSTER))
    for version in (1, 2, 3):
        assert [one.error_code for one in client.ask(create, version).results] == [0, 0]
        (found,) = client.ask(describe, version).resources
        assert (found.resource_type, found.resource_name, found.pattern_type) == (2, "x", 3)
        assert [(one.principal, one.host, one.operation) for one in found.acls] == [
            (ME, "127.0.0.1", READ)
        ]
        answer = client.ask(delete, version)
        assert [len(one.matching_acls) for one in answer.filter_results] == [1, 1]
        assert client.ask(describe, version).resources == []


def test_a_request_with_a_code_of_0_is_not_read(node: RunningNode, acls: Acls):
    acls.add(acl(ALTER, **CLUSTER))
    for request in (
        CreateAclsRequest(creations=[acl(0, resource_name="x")]),
        DeleteAclsRequest(filters=[DeleteAclsFilter(**everything(operation=0))]),
        DescribeAclsRequest(**everything(pattern_type_filter=0)),
    ):
        with node.connect() as client:
            client.send(request, 3)
            assert client.is_disconnected()


def test_acls_outlive_a_restart(node: RunningNode, acls: Acls, topic: Any):
    acls.add(acl(READ, resource_name=topic.name))
    node.restart()
    with node.connect() as client:
        assert metadata(client, topic.name).error_code == 0
        assert produce(client, topic, batch(b"value")).error_code == 29
    authorizer = node.node.authorizer
    assert authorizer is not None and authorizer.machine.acl_count == 1


def test_many_acls_are_told_in_pieces():
    """20,000 took a turn of the event loop a second, for each client that asked."""
    many = 4 * ACLS_PER_PIECE
    present = [Acl(2, f"t-{n % many}", 3, 3, f"User:{n}", "*", 3) for n in range(many, 0, -1)]
    pieces = _describe(present, AclFilter.of(DescribeAclsRequest(**everything())))
    turns = 0
    try:
        while True:
            next(pieces)
            turns += 1
    except StopIteration as done:
        answer = done.value
    assert turns >= 7
    assert len(answer.resources) == many
    names = [one.resource_name for one in answer.resources]
    assert names == sorted(names)
