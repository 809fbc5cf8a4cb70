"""Admin's half about replicas and leaders, against a served node."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.errors import BrokerError, ClientError
from fencepost.client.metadata import TopicPartition
from fencepost.client.replicas import UNCLEAN, Outcome, PartitionState, Reassignment
from fencepost.wire.errors import ErrorCode


@pytest.fixture
def admin(served: str, connect: Any, topic: str) -> Admin:
    """Of a node that has `topic` with three partitions."""
    made = Admin(connect(served))
    made.create_topic(topic, 3)
    made.wait_for_topic(topic)
    return made


def the_broker(admin: Admin) -> int:
    [node] = admin.describe_cluster().brokers
    return node.node_id


def test_reassignments_are_told_one_by_one(admin: Admin, topic: str) -> None:
    here = the_broker(admin)
    outcomes = admin.alter_reassignments(
        {
            TopicPartition(topic, 0): [here],
            TopicPartition(topic, 1): [here, here + 1],
            TopicPartition(topic, 2): None,
            TopicPartition(topic, 9): [here],
        }
    )
    errors = {where.partition: outcome.error_code for where, outcome in outcomes.items()}
    assert errors == {
        0: 0,
        1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        2: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert (
        outcomes[TopicPartition(topic, 0)] == Outcome(0)
        and outcomes[TopicPartition(topic, 0)].is_done
    )
    with pytest.raises(BrokerError, match="to 1: The manual partition assignment includes broker"):
        outcomes[TopicPartition(topic, 1)].check("to 1")
    assert admin.list_reassignments() == {}
    assert admin.list_reassignments([TopicPartition(topic, 0)]) == {}


def test_a_reassignments_target() -> None:
    assert Reassignment((4, 5, 3, 1), (4, 5), (1,)).target == (4, 5, 3)


def test_elections_are_told_one_by_one(admin: Admin, topic: str) -> None:
    asked = [TopicPartition(topic, 0), TopicPartition(topic, 9)]
    for outcomes in (admin.elect_leaders(asked), admin.elect_leaders(asked, UNCLEAN)):
        assert outcomes[asked[0]].error_code == ErrorCode.ELECTION_NOT_NEEDED
        assert outcomes[asked[1]].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert admin.elect_leaders(None) == {}
    with pytest.raises(BrokerError):
        admin.elect_leaders(None, 7)


def test_partitions_are_described(admin: Admin, topic: str) -> None:
    here = the_broker(admin)
    found = admin.describe_partitions([topic])
    assert sorted(where.partition for where in found) == [0, 1, 2]
    assert found[TopicPartition(topic, 1)] == PartitionState(here, 0, (here,), (here,), (), (), ())
    assert found.items() <= admin.describe_partitions().items()
    with pytest.raises(BrokerError):
        admin.describe_partitions([topic + "-not"])


def test_log_directories_are_described(admin: Admin, topic: str) -> None:
    here = the_broker(admin)
    where = TopicPartition(topic, 2)
    [found] = [one for one in admin.describe_log_dirs(here) if where in one.replicas]
    assert (found.error_code, found.replicas[where].is_future) == (0, False)
    [alone] = [one for one in admin.describe_log_dirs(here, [where]) if one.replicas]
    assert list(alone.replicas) == [where]
    with pytest.raises(ClientError, match="no broker"):
        admin.describe_log_dirs(here + 1)
