"""The same administrative requests to Fencepost and to Apache Kafka: the same answers.

Every case runs against both, so an expectation that is wrong fails on Kafka. Texts and ids are each
broker's own and are not compared. Where Fencepost differs on purpose (the handlers' headers say
where) there is no case here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.batch.records import BatchBuilder
from fencepost.client.connection import Connection
from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from fencepost.wire.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
)
from fencepost.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.describe_cluster import DescribeClusterRequest
from fencepost.wire.api.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from fencepost.wire.api.describe_producers import DescribeProducersRequest, TopicRequest
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
from fencepost.wire.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from fencepost.wire.types import Uuid

from .topic_words import create, fresh, new

pytestmark = [pytest.mark.interop, pytest.mark.slow]

UNKNOWN_ID = Uuid(b"no topic has it!")
TIMES = ([1000, 3000, 2000], [2500, 500], [3000])


@pytest.fixture
def topic(broker) -> str:
    """A topic with two partitions; partition 0 holds six records with times out of order."""
    name = fresh()
    create(broker, new(name, 2))
    for times in TIMES:
        produce(broker, name, times)
    return name


def batch(times: list[int]) -> bytearray:
    builder = BatchBuilder()
    for time in times:
        builder.append(b"key", b"value", timestamp_ms=time)
    return builder.build()


def produce(broker: Connection, name: str, times: list[int]) -> None:
    partition = PartitionProduceData(index=0, records=batch(times))
    data = TopicProduceData(name=name, partition_data=[partition])
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data])
    (answered,) = broker.request(request, 9).responses
    assert answered.partition_responses[0].error_code == 0


# -- topics --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: new(fresh(), 3), 0),
        (lambda: new(fresh(), -1, -1), 0),
        (lambda: new(fresh(), -1, -1, assignments=[(0, [1]), (1, [1])]), 0),
        (lambda: new(""), 17),
        (lambda: new(".."), 17),
        (lambda: new("a b"), 17),
        (lambda: new("x" * 250), 17),
        (lambda: new("__cluster_metadata"), 42),
        (lambda: new(fresh(), 0), 37),
        (lambda: new(fresh(), 1, 0), 38),
        (lambda: new(fresh(), 1, 5), 38),
        (lambda: new(fresh(), 1, -1, assignments=[(0, [1])]), 42),
        (lambda: new(fresh(), -1, -1, assignments=[(1, [1])]), 39),
        (lambda: new(fresh(), -1, -1, assignments=[(0, [9])]), 39),
        (lambda: new(fresh(), -1, -1, assignments=[(0, [1, 1])]), 39),
        (lambda: new(fresh(), -1, -1, assignments=[(0, [])]), 39),
        (lambda: new(fresh(), configs={"no.such": "1"}), 40),
        (lambda: new(fresh(), configs={"retention.ms": "x"}), 40),
        (lambda: new(fresh(), configs={"cleanup.policy": "shred"}), 40),
        (lambda: new(fresh(), configs={"retention.ms": None}), 40),
    ],
)
def test_topics_that_can_and_cannot_be_made(
    broker: Connection, make: Callable[[], CreatableTopic], code: int, version: int
) -> None:
    asked = make()
    request = CreateTopicsRequest(topics=[asked], validate_only=True)
    (answer,) = broker.request(request, version).topics
    assert (answer.name, answer.error_code) == (asked.name, code)
    assert (answer.error_message is None) == (code == 0)


def test_names_that_are_taken(broker, topic):
    dotted = f"{topic}.x"
    broker.request(CreateTopicsRequest(topics=[new(dotted)]))
    asked = [new(topic), new(f"{topic}_x"), new("twice"), new("twice")]
    answers = broker.request(CreateTopicsRequest(topics=asked, validate_only=True)).topics
    assert sorted((t.name, t.error_code) for t in answers) == sorted(
        [(topic, 36), (f"{topic}_x", 17), ("twice", 42)]
    )


def test_growing(broker, topic):
    asked = [
        CreatePartitionsTopic(name=name, count=count, assignments=None)
        for name, count in ((topic, 3), (f"{topic}-absent", 3))
    ]
    answers = broker.request(
        CreatePartitionsRequest(topics=asked, timeout_ms=5000, validate_only=True)
    ).results
    assert sorted((t.name, t.error_code) for t in answers) == [(topic, 0), (f"{topic}-absent", 3)]
    for count in (2, 1, -1):
        asked = [CreatePartitionsTopic(name=topic, count=count, assignments=None)]
        (answer,) = broker.request(CreatePartitionsRequest(topics=asked, timeout_ms=5000)).results
        assert answer.error_code == 37


def test_deleting(broker, topic):
    asked = [
        DeleteTopicState(name=f"{topic}-absent"),
        DeleteTopicState(topic_id=UNKNOWN_ID),
        DeleteTopicState(name=None),
        DeleteTopicState(name=topic),
    ]
    answers = broker.request(DeleteTopicsRequest(topics=asked, timeout_ms=5000)).responses
    assert sorted((t.name or "", t.error_code) for t in answers) == sorted(
        [("", 42), ("", 100), (topic, 0), (f"{topic}-absent", 3)]
    )


# -- metadata ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_a_topic(broker, topic, version):
    asked = [MetadataRequestTopic(name=name) for name in (topic, "a b", topic)]
    answer = broker.request(MetadataRequest(topics=asked), version)
    found = {t.name: t for t in answer.topics}
    assert {name: t.error_code for name, t in found.items()} == {topic: 0, "a b": 17}
    assert sorted(
        (p.partition_index, p.error_code, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes)
        for p in found[topic].partitions
    ) == [(i, 0, 1, 0 if version >= 7 else -1, [1], [1]) for i in range(2)]
    assert [b.node_id for b in answer.brokers] == [1]
    assert answer.controller_id == (1 if version >= 1 else -1)


@pytest.mark.parametrize("version", [12, 13])
def test_metadata_by_id(broker, topic, version):
    known = broker.request(MetadataRequest(topics=[MetadataRequestTopic(name=topic)])).topics[0]
    asked = [MetadataRequestTopic(name=None, topic_id=id_) for id_ in (known.topic_id, UNKNOWN_ID)]
    answers = broker.request(MetadataRequest(topics=asked), version).topics
    assert {t.topic_id: (t.name, t.error_code) for t in answers} == {
        known.topic_id: (topic, 0),
        UNKNOWN_ID: (None, 100),
    }


@pytest.mark.parametrize("version", [10, 11])
def test_ids_before_their_time(broker, version):
    asked = [MetadataRequestTopic(name="events", topic_id=UNKNOWN_ID)]
    answer = broker.request(MetadataRequest(topics=asked), version)
    assert (answer.brokers, [t.error_code for t in answer.topics]) == ([], [42])


def test_what_the_caller_may_do(broker, topic):
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = broker.request(request, 8)
    assert answer.topics[0].topic_authorized_operations == 3576
    assert answer.cluster_authorized_operations == 8096
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert broker.request(request).cluster_authorized_operations == 8096


@pytest.mark.parametrize(("endpoint_type", "code"), [(1, 0), (2, 114), (3, 115)])
def test_describing_the_cluster(broker, endpoint_type, code):
    answer = broker.request(DescribeClusterRequest(endpoint_type=endpoint_type), 2)
    assert answer.error_code == code
    assert [b.broker_id for b in answer.brokers] == ([1] if code == 0 else [])


# -- offsets and logs ----------------------------------------------------------------------------


def where(broker: Connection, name: str, timestamp: int, *, version: int = 11, **options: Any):
    question = ListOffsetsPartition(
        partition_index=options.pop("partition", 0),
        timestamp=timestamp,
        current_leader_epoch=options.pop("current", -1),
    )
    request = ListOffsetsRequest(
        **{"replica_id": -1, **options},
        topics=[ListOffsetsTopic(name=name, partitions=[question])],
    )
    (answer,) = broker.request(request, version).topics[0].partitions
    return answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch


@pytest.mark.parametrize("version", range(1, 12))
def test_offsets_by_time(broker, topic, version):
    epoch = 0 if version >= 4 else -1
    refused, nothing = (35, -1, -1, -1), (0, -1, -1, -1)
    since = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11, -7: 99}
    expected = {
        -1: (0, -1, 6, epoch),
        -2: (0, -1, 0, epoch),
        -3: (0, 3000, 1, epoch),
        -4: (0, -1, 0, epoch),
        -5: nothing,
        -6: nothing,
        0: (0, 1000, 0, epoch),
        1001: (0, 3000, 1, epoch),
        3000: (0, 3000, 1, epoch),
        3001: nothing,
    }
    for timestamp in range(-7, 0):
        wanted = expected[timestamp] if version >= since[timestamp] else refused
        assert where(broker, topic, timestamp, version=version) == wanted
    for timestamp in (0, 1001, 3000, 3001):
        assert where(broker, topic, timestamp, version=version) == expected[timestamp]


def test_offsets_for_askers_of_all_kinds(broker, topic):
    end = (0, -1, 6, 0)
    assert where(broker, topic, -1, isolation_level=1) == end
    assert where(broker, topic, -1, replica_id=-2) == end
    assert where(broker, topic, -1, replica_id=1) == end
    assert where(broker, topic, -1, current=0) == end
    assert where(broker, topic, -1, current=1)[0] == 75
    assert where(broker, topic, -1, partition=9)[0] == 3
    assert where(broker, topic, -1, partition=-1)[0] == 3
    assert where(broker, "answers-absent", -1)[0] == 3


@pytest.mark.parametrize("version", range(2, 5))
@pytest.mark.parametrize(
    ("epoch", "current", "answer"),
    [
        (0, -1, (0, 0, 6)),
        (-1, -1, (0, -1, -1)),
        (1, -1, (0, -1, -1)),
        (-2, -1, (0, -2, 0)),
        (0, 0, (0, 0, 6)),
        (0, 1, (75, -1, -1)),
    ],
)
def test_where_epochs_end(broker, topic, epoch, current, answer, version):
    question = OffsetForLeaderPartition(
        partition=0, leader_epoch=epoch, current_leader_epoch=current
    )
    absent = OffsetForLeaderPartition(partition=9, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=topic, partitions=[question, absent])]
    )
    found, missing = broker.request(request, version).topics[0].partitions
    assert (found.error_code, found.leader_epoch, found.end_offset) == answer
    assert (missing.error_code, missing.leader_epoch, missing.end_offset) == (3, -1, -1)


@pytest.mark.parametrize("version", range(3))
def test_deleting_records(broker, topic, version):
    def delete(offset: int, partition: int = 0, name: str = topic) -> tuple[int, int]:
        asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=[asked])], timeout_ms=5000
        )
        (answer,) = broker.request(request, version).topics[0].partitions
        return answer.error_code, answer.low_watermark

    assert delete(2) == (0, 2)
    assert delete(1) == (0, 2)
    assert delete(99) == (1, -1)
    assert delete(-2) == (1, -1)
    assert delete(0, partition=9) == (3, -1)
    assert delete(0, name="answers-absent") == (3, -1)
    assert where(broker, topic, -2)[2] == 2
    assert delete(-1) == (0, 6)
    assert where(broker, topic, -2)[2] == 6
    assert where(broker, topic, 0) == (0, -1, -1, -1)


def test_compacted_topics_keep_their_records(broker):
    name = fresh()
    create(broker, new(name, configs={"cleanup.policy": "compact"}))
    asked = DeleteRecordsPartition(partition_index=0, offset=0)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[asked])])
    assert broker.request(request).topics[0].partitions[0].error_code == 44


def test_producers_that_cannot_be_told(broker, topic):
    asked = [
        TopicRequest(name=topic, partition_indexes=[0, 9]),
        TopicRequest(name="answers-absent", partition_indexes=[0]),
        TopicRequest(name="a b", partition_indexes=[0]),
    ]
    answers = broker.request(DescribeProducersRequest(topics=asked)).topics
    assert {t.name: [p.error_code for p in t.partitions] for t in answers} == {
        topic: [0, 3],
        "answers-absent": [3],
        "a b": [17],
    }


@pytest.mark.parametrize("version", range(1, 6))
def test_the_size_of_a_partition(broker, topic, version):
    asked = [
        DescribableLogDirTopic(topic=topic, partitions=[0, 1, 9]),
        DescribableLogDirTopic(topic="answers-absent", partitions=[0]),
    ]
    written = sum(len(batch(times)) for times in TIMES)
    (result,) = broker.request(DescribeLogDirsRequest(topics=asked), version).results
    assert result.error_code == 0
    assert {
        t.name: sorted((p.partition_index, p.partition_size, p.offset_lag) for p in t.partitions)
        for t in result.topics
    } == {topic: [(0, written, 0), (1, 0, 0)]}
    assert (result.total_bytes > 0) == (version >= 4)
