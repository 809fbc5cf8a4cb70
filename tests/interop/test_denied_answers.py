"""What a client without rights is answered is what Apache Kafka answers it, API by API.

Both brokers run side by side with the same ACLs. The client is User:ANONYMOUS, as which Apache
Kafka's own nodes come, too: so it keeps CLUSTER_ACTION, and what asks for that is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker.config.keys.authorization import STANDARD_AUTHORIZER
from fencepost.broker.net.served import BROKER, SERVED_BY_KIND
from fencepost.client.connection import Connection, ConnectionFailed
from fencepost.wire.api import request_class
from fencepost.wire.api.create_acls import AclCreation, CreateAclsRequest
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

from ..broker.apis.authorizers import errors_in
from ..broker.samples import sample
from ..waiting import DEADLINE_MS
from .conftest import one_node
from .maven import JarSet
from .topic_words import create, new

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TOPIC = "sample"
ALL, CREATE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = (
    2, 5, 7, 8, 10, 11, 12,
)  # fmt: skip
TOPICS, GROUPS, CLUSTER, TRANSACTIONS, USERS = 2, 3, 4, 5, 7
DENY = 2
OF_BROKERS = {23, 27, *range(83, 88)}
"""APIs that ask for CLUSTER_ACTION, or begin with it."""
CONFIG = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}


def denied(kind: int, name: str, operation: int) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        principal="User:ANONYMOUS",
        host="*",
        operation=operation,
        permission_type=DENY,
    )


class Node:
    """One of the brokers, and what it says."""

    def __init__(self, servers: str) -> None:
        host, _, port = servers.rpartition(":")
        self._address = host, int(port)
        with self.connect() as connection:
            create(connection, new(TOPIC, 1))
            from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic

            asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
            self.topic_id: Uuid = connection.request(asked, 12).topics[0].topic_id
            rules = [denied(kind, "*", ALL) for kind in (TOPICS, GROUPS, TRANSACTIONS, USERS)]
            # An ACL that allows nothing that is asked for: what is not denied by others stays so.
            kept = AclCreation(
                resource_type=CLUSTER,
                resource_name="kafka-cluster",
                principal="User:ANONYMOUS",
                host="*",
                operation=9,
                permission_type=3,
            )
            answer = connection.request(CreateAclsRequest(creations=[*rules, kept]), 3)
            assert {one.error_code for one in answer.results} == {0}

    def connect(self) -> Connection:
        return Connection(*self._address, timeout_ms=DEADLINE_MS)

    def errors(self, api_key: int, version: int) -> list[int] | str:
        """The error codes of the answer to a request with everything in it."""
        kind: type[Message] = request_class(api_key)
        request: Any = sample(kind, version, TOPIC, self.topic_id)
        if api_key == 3 and request.topics:
            request.topics[0].topic_id = Uuid.ZERO
        with self.connect() as connection:
            try:
                answer = connection.request(request, version)
            except ConnectionFailed:
                return "disconnected"
        return sorted(errors_in(answer))


@pytest.fixture(scope="module")
def nodes(
    kafka_jars: JarSet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Node, Node]]:
    at = tmp_path_factory.mktemp("apache")
    with one_node("apache", at, **CONFIG) as apache, one_node("fencepost", at, **CONFIG) as ours:
        yield Node(apache), Node(ours)


ROWS = sorted(
    (row.api_key, version)
    for row in SERVED_BY_KIND[BROKER].values()
    for version in {row.min_version, row.max_version}
    if row.asks and row.api_key not in OF_BROKERS
)


@pytest.mark.parametrize(("api_key", "version"), ROWS)
def test_the_same_is_refused(nodes: tuple[Node, Node], api_key: int, version: int):
    theirs, ours = (node.errors(api_key, version) for node in nodes)
    assert ours == theirs, request_class(api_key).__name__
