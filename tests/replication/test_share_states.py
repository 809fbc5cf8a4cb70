"""Share coordinators move while share partition leaders write: what was acknowledged is there."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.errors import ClientError
from fencepost.testing import Cluster
from fencepost.wire.api import (
    initialize_share_group_state as initializing,
    read_share_group_state as reading,
    write_share_group_state as writing,
)
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.share_group_describe import ShareGroupDescribeRequest
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

from ..waiting import DEADLINE_S, eventually

pytestmark = [pytest.mark.long]

CONFIG = {
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.snapshot.update.records.per.snapshot": 7,
    "share.coordinator.state.topic.prune.interval.ms": 500,
    "share.coordinator.cold.partition.snapshot.interval.ms": 700,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 3,
    "broker.session.timeout.ms": 3_000,
}
BROKERS = (1, 2, 3)
SHARE, GROUP = 2, 0
RETRIED = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(len(BROKERS), config=CONFIG) as made:
        yield made


class Coordinators:
    """Asks coordinators, wherever they are; `last` is the broker that answered."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.last = -1

    def find(self, key: str, key_type: int) -> int:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        for id_ in BROKERS:
            with contextlib.suppress(ClientError, OSError), self._cluster.connect(id_) as broker:
                (found,) = broker.request(request, 6).coordinators
                if not found.error_code:
                    return int(found.node_id)
        return -1

    def ask(self, key: str, key_type: int, request: Message, version: int) -> Any:
        """The answer of a coordinator that coordinates the key."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            node_id = self.find(key, key_type)
            if node_id > 0:
                with contextlib.suppress(ClientError, OSError):
                    with self._cluster.connect(node_id) as broker:
                        answer = broker.request(request, version)
                    if _error_of(answer) not in RETRIED:
                        self.last = node_id
                        return answer
            time.sleep(0.05)
        raise AssertionError(f"{key} has no coordinator")


def _error_of(answer: Any) -> int:
    if hasattr(answer, "results"):
        return int(answer.results[0].partitions[0].error_code)
    return int(answer.groups[0].error_code if hasattr(answer, "groups") else answer.error_code)


def topic_of(cluster: Cluster) -> tuple[str, Any]:
    name = f"shared{uuid.uuid4().hex[:8]}"
    with Client(cluster.bootstrap_servers) as client:
        Admin(client).create_topic(name, partitions=1, replication_factor=3)
        Admin(client).wait_for_topic(name)
        return name, Admin(client).describe_topic(name).topic_id


def test_acknowledged_writes_survive_coordinators_that_are_killed(cluster: Cluster) -> None:
    _, topic_id = topic_of(cluster)
    key = f"g:{topic_id}:0"
    coordinators = Coordinators(cluster)
    data = initializing.PartitionData(partition=0, state_epoch=1, start_offset=0)
    topic = initializing.InitializeStateData(topic_id=topic_id, partitions=[data])
    request = initializing.InitializeShareGroupStateRequest(group_id="g", topics=[topic])
    assert _error_of(coordinators.ask(key, SHARE, request, 0)) == 0
    moved = {coordinators.last}

    def write(offset: int) -> int:
        batch = writing.StateBatch(
            first_offset=offset, last_offset=offset, delivery_state=2, delivery_count=1
        )
        row = writing.PartitionData(
            partition=0, state_epoch=1, leader_epoch=0, start_offset=0, state_batches=[batch]
        )
        topic = writing.WriteStateData(topic_id=topic_id, partitions=[row])
        request = writing.WriteShareGroupStateRequest(group_id="g", topics=[topic])
        return _error_of(coordinators.ask(key, SHARE, request, 1))

    offsets = range(0, 120, 2)  # no two of them become one batch
    for count, offset in enumerate(offsets):
        assert write(offset) == 0
        moved.add(coordinators.last)
        if count % 20 == 10:
            killed = coordinators.last
            cluster.kill(killed)
            assert write(offset) == 0, "another coordinator takes it"
            moved.add(coordinators.last)
            cluster.start(killed)
    assert len(moved) > 1, "the coordinator has moved"
    row = reading.PartitionData(partition=0, leader_epoch=0)
    asked = reading.ReadStateData(topic_id=topic_id, partitions=[row])
    wanted = reading.ReadShareGroupStateRequest(group_id="g", topics=[asked])
    answer = coordinators.ask(key, SHARE, wanted, 0)
    ((stored,),) = (one.partitions for one in answer.results)
    found = [
        (one.first_offset, one.last_offset, one.delivery_state) for one in stored.state_batches
    ]
    assert found == [(offset, offset, 2) for offset in offsets]


def test_a_share_group_goes_on_with_its_next_coordinator(cluster: Cluster) -> None:
    name, topic_id = topic_of(cluster)
    coordinators = Coordinators(cluster)
    member, group = str(uuid.uuid4()), "moving"

    def beat(epoch: int, *topics: str) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=list(topics) or None,
        )
        answer = coordinators.ask(group, GROUP, request, 1)
        assert answer.error_code == 0, answer
        return answer

    def assigned() -> list[Any]:
        answer = beat(0, name)
        return [(one.topic_id, one.partitions) for one in answer.assignment.topic_partitions]

    eventually(lambda: assigned() == [(topic_id, [0])], "the assignment")
    epoch = beat(0, name).member_epoch
    killed = coordinators.last
    cluster.kill(killed)
    assert beat(epoch).member_epoch == epoch, "the member stays what it is"
    assert coordinators.last != killed
    request = ShareGroupDescribeRequest(group_ids=[group])
    (told,) = coordinators.ask(group, GROUP, request, 1).groups
    assert [one.member_id for one in told.members] == [member]
    cluster.start(killed)
