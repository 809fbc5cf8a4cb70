"""OffsetForLeaderEpoch: the table of epochs, and the order in which askers are refused."""

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from .harness import ask, broker, register, served_versions
from .partitions import PartitionNode

register("offsets")

VERSIONS = served_versions(OffsetForLeaderEpochRequest)


@pytest.fixture
def node(tmp_path):
    return PartitionNode(BrokerConfig.load(None, {}), directory=tmp_path).learn(broker(1))


@pytest.fixture
def hosted(node):
    """Epoch 0 holds offsets 0-2, epoch 3 holds 3-4, epoch 5 holds 5; then epoch 7, still empty."""
    hosted = node.host("events")
    node.produce(hosted, [1, 2, 3])
    node.lead(hosted, 3)
    node.produce(hosted, [4, 5])
    node.lead(hosted, 5)
    node.produce(hosted, [6])
    node.lead(hosted, 7)
    return hosted


def where(node, epoch, current=-1, *, topic="events", partition=0, version=4):
    question = OffsetForLeaderPartition(
        partition=partition, leader_epoch=epoch, current_leader_epoch=current
    )
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=topic, partitions=[question])]
    )
    (answered,) = ask(node, request, version).topics
    (answer,) = answered.partitions
    assert (answered.topic, answer.partition) == (topic, partition)
    return answer.error_code, answer.leader_epoch, answer.end_offset


def test_kafka_4_3_versions_are_served():
    assert range(2, 5) == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("asked", "epoch", "end"),
    [
        (-2, -2, 0),  # before the first epoch: as Kafka has it, the question back
        (-1, -1, -1),
        (0, 0, 3),
        (1, 0, 3),
        (2, 0, 3),
        (3, 3, 5),
        (4, 3, 5),
        (5, 5, 6),
        (6, 5, 6),
        (7, 7, 6),
        (8, -1, -1),
    ],
)
def test_where_epochs_end(node, hosted, asked, epoch, end, version):
    assert where(node, asked, version=version) == (0, epoch, end)


def test_the_latest_epoch_ends_at_the_log_end_not_at_the_high_watermark(node):
    hosted = node.host("events", replicas=(1, 2))
    node.produce(hosted, [1, 2])
    assert hosted.machine.high_watermark == 0
    assert where(node, 0) == (0, 0, 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_askers_epoch_is_checked(node, hosted, version):
    assert where(node, 0, current=7, version=version) == (0, 0, 3)
    assert where(node, 0, current=6, version=version) == (74, -1, -1)
    assert where(node, 0, current=8, version=version) == (75, -1, -1)
    assert where(node, 0, current=-2, version=version) == (74, -1, -1)


def test_the_epoch_is_checked_before_the_leadership(node, hosted):
    node.follow(hosted, 8)
    assert where(node, 0) == (6, -1, -1)
    assert where(node, 0, current=7) == (74, -1, -1)
    assert where(node, 0, current=9) == (75, -1, -1)
    assert where(node, 0, current=8) == (6, -1, -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_that_are_not_here(node, hosted, version):
    node.host("wide", index=1)  # partition 0 is somewhere else
    assert where(node, 0, topic="wide", version=version) == (6, -1, -1)
    assert where(node, 0, partition=9, version=version) == (3, -1, -1)
    assert where(node, 0, partition=-1, version=version) == (3, -1, -1)
    assert where(node, 0, topic="absent", version=version) == (3, -1, -1)
    assert where(node, 0, topic="a b", version=version) == (3, -1, -1)


@pytest.mark.parametrize("current", [-1, 6, 7, 8])
def test_an_offline_directory_comes_first(node, hosted, current):
    node.driver.disk_failed(hosted.key, "gone")
    assert where(node, 0, current=current) == (56, -1, -1)
    node.replicas.storage_failed(hosted, "gone")
    assert where(node, 0, current=current) == (56, -1, -1)


@pytest.mark.parametrize("replica_id", [-2, -1, 0, 2])
def test_the_replica_id_is_not_looked_at(node, hosted, replica_id):
    question = OffsetForLeaderPartition(partition=0, leader_epoch=5)
    request = OffsetForLeaderEpochRequest(
        replica_id=replica_id,
        topics=[OffsetForLeaderTopic(topic="events", partitions=[question])],
    )
    assert ask(node, request).topics[0].partitions[0].end_offset == 6


def test_every_partition_is_answered_in_the_order_of_the_request(node, hosted):
    asked = [("absent", [0, 1]), ("events", [9, 0]), ("absent", [2])]
    request = OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderTopic(
                topic=name,
                partitions=[OffsetForLeaderPartition(partition=i, leader_epoch=0) for i in indexes],
            )
            for name, indexes in asked
        ]
    )
    answered = [
        (t.topic, [(p.partition, p.error_code) for p in t.partitions])
        for t in ask(node, request).topics
    ]
    assert answered == [
        ("absent", [(0, 3), (1, 3)]),
        ("events", [(9, 3), (0, 0)]),
        ("absent", [(2, 3)]),
    ]
