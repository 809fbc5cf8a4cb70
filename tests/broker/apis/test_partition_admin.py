"""DeleteRecords, DescribeProducers, DescribeLogDirs over real partitions.

Where nothing is said, the answers are those Apache Kafka 4.3 gave to the same requests.
"""

import itertools
import os

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from fencepost.wire.api.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from fencepost.wire.api.describe_producers import DescribeProducersRequest, TopicRequest

from .harness import ask, begin, broker, register, served_versions, to_its_end
from .partitions import PartitionNode

register("offsets", "describe_producers", "describe_log_dirs")

DELETE = served_versions(DeleteRecordsRequest)
DIRS = served_versions(DescribeLogDirsRequest)


@pytest.fixture
def node(tmp_path):
    config = BrokerConfig.load(None, {"log.dirs": str(tmp_path)})
    return PartitionNode(config, directory=tmp_path).learn(broker(1))


@pytest.fixture
def hosted(node):
    hosted = node.host("events")
    node.produce(hosted, [1, 2, 3])
    node.produce(hosted, [4, 5, 6])
    return hosted


def test_kafka_4_3_versions_are_served():
    assert (range(3), range(1, 6)) == (DELETE, DIRS)
    assert served_versions(DescribeProducersRequest) == range(1)


# -- DeleteRecords -------------------------------------------------------------------------------


def delete(node, *offsets, topic="events", version=2):
    partitions = [DeleteRecordsPartition(partition_index=i, offset=o) for i, o in offsets]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)])
    (answered,) = ask(node, request, version).topics
    assert answered.name == topic
    return [(p.partition_index, p.error_code, p.low_watermark) for p in answered.partitions]


@pytest.mark.parametrize("version", DELETE)
def test_records_are_deleted(node, hosted, version):
    assert delete(node, (0, 2), version=version) == [(0, 0, 2)]
    assert hosted.log.start_offset == 2
    assert delete(node, (0, 1), version=version) == [(0, 0, 2)]
    assert delete(node, (0, 2), version=version) == [(0, 0, 2)]
    assert delete(node, (0, -1), version=version) == [(0, 0, 6)]
    assert hosted.log.start_offset == hosted.log.end_offset == 6


@pytest.mark.parametrize("offset", [7, 99, 2**63 - 1, -2, -(2**63)])
def test_offsets_beyond_the_log(node, hosted, offset):
    assert delete(node, (0, offset)) == [(0, 1, -1)]
    assert hosted.log.start_offset == 0


def test_only_what_every_replica_has_can_be_deleted(node):
    hosted = node.host("events", replicas=(1, 2))
    node.produce(hosted, [1, 2, 3])
    node.follower_fetched(hosted, 2, 2)
    assert delete(node, (0, 3)) == [(0, 1, -1)]
    assert delete(node, (0, -1)) == [(0, 7, -1)], "the other replica has not said where it starts"
    assert hosted.log.start_offset == 2
    node.follower_fetched(hosted, 2, 2, log_start_offset=1)
    assert delete(node, (0, 2)) == [(0, 7, 1)]
    node.follower_fetched(hosted, 2, 2, log_start_offset=2)
    assert delete(node, (0, 2)) == [(0, 0, 2)]


def test_a_deletion_waits_for_the_other_replicas(node):
    hosted = node.host("events", replicas=(1, 2))
    node.produce(hosted, [1, 2, 3])
    node.follower_fetched(hosted, 2, 3, log_start_offset=0)
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name="events", partitions=[DeleteRecordsPartition(partition_index=0, offset=3)]
            )
        ],
        timeout_ms=1_000,
    )
    pieces = begin(node, request, 2)
    futures = [one for one in itertools.islice(pieces, 2) if one is not None]
    assert not futures[0].done()
    node.follower_fetched(hosted, 2, 3, log_start_offset=3)
    (topic,) = to_its_end(pieces).topics
    assert [(p.error_code, p.low_watermark) for p in topic.partitions] == [(0, 3)]


@pytest.mark.parametrize("version", DELETE)
def test_partitions_whose_records_cannot_be_deleted(node, hosted, version):
    node.host("compacted", cleanup_policy="compact")
    node.host("both", cleanup_policy="compact,delete")
    node.host("__consumer_offsets", cleanup_policy="compact")
    node.host("wide", index=1)
    assert delete(node, (9, 0), version=version) == [(9, 3, -1)]
    assert delete(node, (0, 0), topic="absent", version=version) == [(0, 3, -1)]
    assert delete(node, (0, 0), topic="a b", version=version) == [(0, 3, -1)]
    assert delete(node, (0, 0), topic="wide", version=version) == [(0, 6, -1)]
    assert delete(node, (0, 0), topic="compacted", version=version) == [(0, 44, -1)]
    assert delete(node, (0, 0), topic="both", version=version) == [(0, 0, 0)]
    assert delete(node, (0, 0), topic="__consumer_offsets", version=version) == [(0, 17, -1)]
    node.follow(hosted, 1)
    assert delete(node, (0, 1), version=version) == [(0, 6, -1)]
    node.replicas.storage_failed(hosted, "gone")
    assert delete(node, (0, 1), version=version) == [(0, 56, -1)]


def test_a_partition_named_twice_is_taken_as_named_last(node, hosted):
    assert delete(node, (0, 5), (9, 0), (0, 2)) == [(0, 0, 2), (9, 3, -1)]
    assert hosted.log.start_offset == 2


def test_a_disk_that_refuses_takes_the_directory_offline(node, hosted):
    hosted.log.fail("the disk refuses")
    assert delete(node, (0, 2)) == [(0, 56, -1)]
    assert not hosted.data_dir.is_online


# -- DescribeProducers ---------------------------------------------------------------------------


def producers(node, *indexes, topic="events"):
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=list(indexes))]
    )
    (answered,) = ask(node, request).topics
    assert answered.name == topic
    assert [p.partition_index for p in answered.partitions] == list(indexes)
    return answered.partitions


def test_active_producers(node, hosted):
    node.produce(hosted, [7], producer_id=9, producer_epoch=1, base_sequence=0)
    node.produce(hosted, [8, 9], producer_id=9, producer_epoch=1, base_sequence=1)
    node.produce(hosted, [5], producer_id=4, producer_epoch=0, base_sequence=0, transactional=True)
    (answer,) = producers(node, 0)
    assert answer.error_code == 0
    assert [
        (
            p.producer_id,
            p.producer_epoch,
            p.last_sequence,
            p.last_timestamp,
            p.coordinator_epoch,
            p.current_txn_start_offset,
        )
        for p in answer.active_producers
    ] == [(4, 0, 0, 5, -1, 9), (9, 1, 2, 9, -1, -1)]


def test_a_follower_tells_them_too(node, hosted):
    """As Kafka's does: a tool asks a replica of its choice (KIP-664)."""
    node.produce(hosted, [7], producer_id=9, producer_epoch=1, base_sequence=0)
    (led,) = producers(node, 0)
    node.follow(hosted, 1)
    (followed,) = producers(node, 0)
    assert (followed.error_code, followed.active_producers) == (0, led.active_producers)


def test_nobody_wrote_with_an_id(node, hosted):
    (answer,) = producers(node, 0)
    assert (answer.error_code, answer.active_producers) == (0, [])
    assert producers(node) == []


def test_producers_that_cannot_be_told(node, hosted):
    node.host("wide", index=1)
    assert [(p.error_code, p.error_message) for p in producers(node, 0, 9)] == [
        (0, None),
        (3, None),
    ]
    assert producers(node, 0, topic="wide")[0].error_code == 6
    for topic, code in (("absent", 3), ("a b", 17)):
        (answer,) = producers(node, 0, topic=topic)
        assert answer.error_code == code
        assert answer.error_message
    node.driver.disk_failed(hosted.key, "gone")
    assert producers(node, 0)[0].error_code == 56
    node.replicas.storage_failed(hosted, "gone")
    assert producers(node, 0)[0].error_code == 56


# -- DescribeLogDirs -----------------------------------------------------------------------------


def directory(node, *topics, version=5, everything=False):
    asked = [
        DescribableLogDirTopic(topic=name, partitions=list(indexes)) for name, indexes in topics
    ]
    answer = ask(node, DescribeLogDirsRequest(topics=None if everything else asked), version)
    assert answer.error_code == 0
    (result,) = answer.results
    assert result.log_dir == str(node.directory)
    return result


def sizes(result):
    return {
        topic.name: [(p.partition_index, p.partition_size) for p in topic.partitions]
        for topic in result.topics
    }


@pytest.mark.parametrize("version", DIRS)
def test_what_lies_in_the_directory(node, hosted, version):
    node.host("events", index=1)
    node.host("another")
    result = directory(node, everything=True, version=version)
    written = os.path.getsize(node.directory / "events-0" / f"{0:020d}.log")
    assert sizes(result) == {"another": [(0, 0)], "events": [(0, written), (1, 0)]}
    assert written == hosted.log.size_bytes > 0
    assert [t.name for t in result.topics] == ["another", "events"]
    assert all(p.offset_lag == 0 for t in result.topics for p in t.partitions)
    if version >= 4:
        assert result.total_bytes > result.usable_bytes > 0
    assert not result.is_cordoned


def test_only_what_was_asked_for_is_told(node, hosted):
    node.host("another")
    asked = [("events", [0, 9, 0]), ("absent", [0]), ("another", [])]
    assert list(sizes(directory(node, *asked))) == ["events"]
    assert sizes(directory(node)) == {}
    assert sizes(directory(node, ("another", [1]), ("another", [0]))) == {"another": [(0, 0)]}


@pytest.mark.parametrize("version", DIRS)
def test_an_offline_directory(node, hosted, version):
    node.replicas.storage_failed(hosted, "gone")
    result = directory(node, everything=True, version=version)
    assert (result.error_code, result.topics) == (56, [])
    assert (result.total_bytes, result.usable_bytes) == (-1, -1)
