"""The administrative requests over a socket, to a broker in its own process, and after its death.

Rules and errors are tested in the other modules, without a process. Here it is shown that the
handlers are wired to a real node: what is answered has happened, and is still so after a kill.
"""

import pytest

from fencepost.batch.records import BatchBuilder
from fencepost.client.connection import Connection
from fencepost.testing import Cluster
from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from fencepost.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.describe_cluster import DescribeClusterRequest
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.api.describe_log_dirs import DescribeLogDirsRequest
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from ...waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster():
    with Cluster() as served:
        yield served


def connect(cluster) -> Connection:
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    return Connection(host, int(port), timeout_ms=60_000)


@pytest.fixture
def broker(cluster):
    with connect(cluster) as connection:
        yield connection


def create(broker, name, partitions=1):
    asked = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    (made,) = broker.request(CreateTopicsRequest(topics=[asked])).topics
    assert made.error_code == 0
    return made


def produce(broker, name, *times):
    builder = BatchBuilder()
    for time in times:
        builder.append(b"key", b"value", timestamp_ms=time)
    partition = PartitionProduceData(index=0, records=builder.build())
    data = TopicProduceData(name=name, partition_data=[partition])
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data])
    (answer,) = broker.request(request, 9).responses[0].partition_responses
    return answer.error_code


def partitions_of(broker, name):
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    (topic,) = broker.request(request).topics
    return topic.error_code, topic.topic_id, len(topic.partitions)


def offset_at(broker, name, timestamp):
    question = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[question])]
    )
    (answer,) = broker.request(request).topics[0].partitions
    assert answer.error_code == 0
    return answer.offset


def end_of_epoch(broker, name, epoch):
    question = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=name, partitions=[question])]
    )
    (answer,) = broker.request(request).topics[0].partitions
    return answer.error_code, answer.leader_epoch, answer.end_offset


def alter(broker, resource_type, name, key, value):
    change = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=[change]
    )
    (answer,) = broker.request(IncrementalAlterConfigsRequest(resources=[resource])).responses
    return answer.error_code


def config(broker, resource_type, name, key):
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=[key]
    )
    (result,) = broker.request(DescribeConfigsRequest(resources=[resource])).results
    (found,) = result.configs
    return found.value, found.config_source


def test_the_cluster_describes_itself(cluster, broker):
    answer = broker.request(DescribeClusterRequest())
    addresses = [f"{b.host}:{b.port}" for b in answer.brokers]
    assert addresses == [cluster.bootstrap_servers]
    assert answer.cluster_id


def test_what_is_answered_has_happened_and_outlives_a_kill(cluster, broker):
    made = create(broker, "events", 2)
    assert produce(broker, "events", 10, 20, 30) == 0
    grow = CreatePartitionsTopic(name="events", count=3, assignments=None)
    broker.request(CreatePartitionsRequest(topics=[grow], timeout_ms=60_000))
    assert alter(broker, 2, "events", "retention.bytes", "4096") == 0
    assert alter(broker, 4, "", "log.segment.bytes", "2097152") == 0
    trim = DeleteRecordsPartition(partition_index=0, offset=1)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="events", partitions=[trim])])
    assert broker.request(request).topics[0].partitions[0].low_watermark == 1

    def check(connection):
        assert partitions_of(connection, "events") == (0, made.topic_id, 3)
        assert config(connection, 2, "events", "retention.bytes") == ("4096", 1)
        assert config(connection, 2, "events", "segment.bytes") == ("2097152", 3)
        assert offset_at(connection, "events", -1) == 3
        assert offset_at(connection, "events", 20) == 1

    check(broker)
    assert offset_at(broker, "events", -2) == 1
    assert end_of_epoch(broker, "events", 0) == (0, 0, 3)
    cluster.kill()
    cluster.restart()
    with connect(cluster) as again:
        check(again)
        # A new incarnation is a new leader epoch; the old one ended where the log did.
        assert end_of_epoch(again, "events", 0) == (0, 0, 3)


def test_a_topic_that_is_deleted_and_made_again_is_empty(broker):
    first = create(broker, "events")
    produce(broker, "events", 10, 20)
    assert offset_at(broker, "events", -1) == 2
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="events")], timeout_ms=60_000)
    assert broker.request(request).responses[0].error_code == 0
    assert partitions_of(broker, "events")[0] == 3
    assert end_of_epoch(broker, "events", 0) == (3, -1, -1)
    second = create(broker, "events")
    assert second.topic_id != first.topic_id
    assert offset_at(broker, "events", -1) == 0


def test_asking_for_a_topic_makes_it(broker):
    request = MetadataRequest(topics=[MetadataRequestTopic(name="on-demand")])
    (topic,) = broker.request(request).topics
    assert (topic.error_code, topic.partitions) == (3, [])

    def made():
        (topic,) = broker.request(request).topics
        return not topic.error_code and [p.leader_id for p in topic.partitions] == [1]

    eventually(made, "the topic")
    assert produce(broker, "on-demand", 1) == 0


def test_sizes_are_those_of_the_files(cluster, broker):
    create(broker, "events")
    produce(broker, "events", 10, 20, 30)
    (result,) = broker.request(DescribeLogDirsRequest(topics=None)).results
    assert result.log_dir == str(cluster.data_dir)
    (topic,) = [t for t in result.topics if t.name == "events"]
    file = cluster.data_dir / "events-0" / f"{0:020d}.log"
    assert [p.partition_size for p in topic.partitions] == [file.stat().st_size]


def test_a_broker_config_reaches_logs_at_once(cluster, broker):
    create(broker, "events")
    assert produce(broker, "events", 10) == 0
    assert alter(broker, 4, "1", "message.max.bytes", "50") == 0
    assert produce(broker, "events", 20) == 10  # MESSAGE_TOO_LARGE
    assert alter(broker, 2, "events", "max.message.bytes", "100000") == 0
    assert produce(broker, "events", 30) == 0
