"""Every API asks the gate, and a client that it refuses is answered as Apache Kafka answers it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker import apis
from fencepost.broker.loop.fault_handler import FaultHandler
from fencepost.broker.net.served import BROKER, CONTROLLER, SERVED, SERVED_BY_KIND
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.requests.access import Client
from fencepost.runtime.requests.permissions import (
    ALTER_TOPIC,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    READ_TOPIC,
    WRITE_TOPIC,
    Permission,
)
from fencepost.wire.api import request_class
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.message import Message, Struct
from fencepost.wire.types import Uuid

from ..samples import sample
from .harness import answer_of, broker, send, served_versions, topic_id
from .partitions import NOW_MS, PartitionNode

apis.load_all()

UNASKED = {17, 18, 36, 38, 39, 40, 41}
"""Login and versions are for every client; tokens are refused to every client that has not logged
in."""
DECIDED_AFTER_LOADING = {2, 8, 9, 10, 11, 12, 13, 14, 15, 16, 21, 22, 23, 24, 25, 26, 27, 28, 42, 47}
DECIDED_AFTER_LOADING |= {65, 66, 68}


class Rules:
    """An authorizer that refuses some permissions, or all, and notes what it is asked."""

    def __init__(self, *refused: Permission, all_refused: bool = False) -> None:
        self.refused = set(refused)
        self.all_refused = all_refused
        self.asked: set[Permission] = set()

    def allows(self, client: Client, permission: Permission, name: str, *, quiet: bool) -> bool:
        assert client.client_host and client.principal.name == "ANONYMOUS"
        self.asked.add(permission)
        return not self.all_refused and permission not in self.refused

    def allows_any(self, client: Client, permission: Permission) -> bool:
        return self.allows(client, permission, "any", quiet=False)


@pytest.fixture
def node(tmp_path: Path) -> PartitionNode:
    made = PartitionNode(directory=tmp_path).learn(broker(1))
    assert isinstance(made, PartitionNode)
    made.host("sample")
    return made


def rules(node: PartitionNode, *refused: Permission, all_refused: bool = False) -> Rules:
    node.access.authorizer = made = Rules(*refused, all_refused=all_refused)
    return made


class Parts(dict[Any, Any]):
    """The parts of a node, with some that no refused request gets as far as to use."""


def ask(node: Any, request: Message, version: int | None = None, listener: str = "PLAINTEXT") -> Any:
    chosen = served_versions(type(request), listener)[-1] if version is None else version
    return answer_of(send(node, request, chosen, listener))


def errors_in(struct: Any) -> Iterator[int]:
    """The error codes of a response, but for 0, in their order."""
    for descriptor in type(struct).fields:
        value = getattr(struct, descriptor.name)
        if descriptor.name.endswith("error_code") and value:
            yield int(value)
        for one in value if isinstance(value, list) else (value,):
            if isinstance(one, Struct):
                yield from errors_in(one)


def test_every_api_says_what_it_asks_for():
    assert {row.api_key for row in SERVED if not row.asks} == UNASKED
