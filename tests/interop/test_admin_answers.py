"""The same administrative requests to Fencepost and to Apache Kafka: the same answers.

Every case runs against both, so an expectation that is wrong fails on Kafka. Texts and ids are each
broker's own and are not compared. Where Fencepost differs on purpose (the handlers' headers say
where) there is no case here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.batch.records import BatchBuilder
from fencepost.client.connection import Connection
from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from fencepost.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from fencepost.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.describe_cluster import DescribeClusterRequest
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.api.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from fencepost.wire.api.describe_producers import DescribeProducersRequest, TopicRequest
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
from fencepost.wire.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from fencepost.wire.types import Uuid

pytestmark = [pytest.mark.interop, pytest.mark.slow]

UNKNOWN_ID = Uuid(b"nobody has this!")
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
TIMES = ([1000, 3000, 2000], [2500, 500], [3000])


@pytest.fixture
def broker(bootstrap):
    host, _, port = bootstrap.rpartition(":")
    with Connection(host, int(port), timeout_ms=20_000) as connection:
        yield connection


def fresh() -> str:
    """A name that no topic has had, without characters that could collide."""
    return f"answers{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic(broker) -> str:
    """A topic with two partitions; partition 0 holds six records with times out of order."""
    name = fresh()
    made = broker.request(CreateTopicsRequest(topics=[new(name, 2)])).topics
    assert [t.error_code for t in made] == [0]
    wait_for_leaders(broker, name, 2)
    for times in TIMES:
        produce(broker, name, times)
    return name


def wait_for_leaders(broker: Connection, name: str, partitions: int = 1) -> None:
    """Kafka's brokers hear of a topic a moment after its creation was answered."""
    questions = [ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(partitions)]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=questions)]
    )
    for _ in range(1000):
        (answered,) = broker.request(request).topics
        if not any(partition.error_code for partition in answered.partitions):
            return
    raise AssertionError(f"{name} has no leaders")


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


def new(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    configs: dict[str, str | None] | None = None,
    assignments: list[tuple[int, list[int]]] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()],
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in assignments or []
        ],
    )


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


# -- configs -------------------------------------------------------------------------------------


def describe(broker: Connection, kind: int, name: str, *keys: str, **options: Any) -> Any:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    (result,) = broker.request(DescribeConfigsRequest(resources=[resource], **options)).results
    return result


# Kafka's own cluster-wide default (KIP-966), and the one key with several names whose default
# Kafka does not list.
NOT_COMPARED = {"min.insync.replicas"}


def test_a_topics_configs_are_kafkas(broker, topic):
    configs = describe(broker, TOPIC, topic).configs
    described = {
        c.name: (c.value, c.config_source, c.config_type, c.read_only, c.is_sensitive)
        for c in configs
        if c.name not in NOT_COMPARED
    }
    expected = {name: (value, 5, kind, False, False) for name, value, kind in TOPIC_CONFIGS_4_3}
    assert described == expected


TOPIC_CONFIGS_4_3 = [
    ("cleanup.policy", "delete", 7),
    ("compression.gzip.level", "-1", 3),
    ("compression.lz4.level", "9", 3),
    ("compression.type", "producer", 2),
    ("compression.zstd.level", "3", 3),
    ("delete.retention.ms", "86400000", 5),
    ("file.delete.delay.ms", "60000", 5),
    ("flush.messages", "9223372036854775807", 5),
    ("flush.ms", "9223372036854775807", 5),
    ("follower.replication.throttled.replicas", "", 7),
    ("index.interval.bytes", "4096", 3),
    ("leader.replication.throttled.replicas", "", 7),
    ("local.retention.bytes", "-2", 5),
    ("local.retention.ms", "-2", 5),
    ("max.compaction.lag.ms", "9223372036854775807", 5),
    ("max.message.bytes", "1048588", 3),
    ("message.timestamp.after.max.ms", "3600000", 5),
    ("message.timestamp.before.max.ms", "9223372036854775807", 5),
    ("message.timestamp.type", "CreateTime", 2),
    ("min.cleanable.dirty.ratio", "0.5", 6),
    ("min.compaction.lag.ms", "0", 5),
    ("preallocate", "false", 1),
    ("remote.log.copy.disable", "false", 1),
    ("remote.log.delete.on.disable", "false", 1),
    ("remote.storage.enable", "false", 1),
    ("retention.bytes", "-1", 5),
    ("retention.ms", "604800000", 5),
    ("segment.bytes", "1073741824", 3),
    ("segment.index.bytes", "10485760", 3),
    ("segment.jitter.ms", "0", 5),
    ("segment.ms", "604800000", 5),
    ("unclean.leader.election.enable", "false", 1),
]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "", 17),
        (TOPIC, "a b", 17),
        (TOPIC, "answers-absent", 3),
        (BROKER, "1", 0),
        (BROKER, "2", 42),
        (BROKER, "x", 42),
        (8, "1", 0),
        (8, "", 42),
        (8, "2", 42),
        (99, "x", 42),
    ],
)
def test_resources_that_can_and_cannot_be_described(broker, kind, name, code):
    result = describe(broker, kind, name)
    assert result.error_code == code
    assert (not result.configs) == (code != 0)


def alter(broker: Connection, kind: int, name: str, *changes: tuple[Any, ...], **options: Any):
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=k, config_operation=op, value=v) for k, op, v in changes],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], **options)
    (result,) = broker.request(request).responses
    return result.error_code


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", SET, "5")], 0),
        ([("retention.ms", SET, "x")], 40),
        ([("no.such", SET, "x")], 40),
        ([("no.such", DELETE, None)], 0),
        ([("retention.ms", SET, None)], 42),
        ([("retention.ms", APPEND, "1")], 40),
        ([("cleanup.policy", APPEND, "compact")], 0),
        ([("cleanup.policy", APPEND, "shred")], 40),
        ([("cleanup.policy", SUBTRACT, "absent")], 0),
        ([("retention.ms", SET, "5"), ("retention.ms", SET, "6")], 42),
    ],
)
def test_changes_of_a_topics_configs(broker, topic, changes, code):
    assert alter(broker, TOPIC, topic, *changes, validate_only=True) == code
    assert alter(broker, TOPIC, topic, *changes) == code


def test_lists_after_each_change(broker, topic):
    def policy() -> tuple[str | None, int]:
        (config,) = describe(broker, TOPIC, topic, "cleanup.policy").configs
        return config.value, config.config_source

    assert policy() == ("delete", 5)
    for operation, value, expected in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
    ):
        assert alter(broker, TOPIC, topic, ("cleanup.policy", operation, value)) == 0
        wait_until(lambda expected=expected: policy() == (expected, 1))
    assert alter(broker, TOPIC, topic, ("cleanup.policy", DELETE, None)) == 0
    wait_until(lambda: policy() == ("delete", 5))


def wait_until(condition: Callable[[], bool]) -> None:
    """Kafka's brokers hear of a config a moment after the change was answered."""
    for _ in range(1000):
        if condition():
            return
    raise AssertionError("it never came to be")


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (TOPIC, "", ("retention.ms", SET, "5"), 42),
        (TOPIC, "a b", ("retention.ms", SET, "5"), 17),
        (TOPIC, "answers-absent", ("retention.ms", SET, "5"), 3),
        (BROKER, "1", ("num.partitions", SET, "3"), 42),
        (BROKER, "", ("num.partitions", SET, "3"), 42),
        (BROKER, "1", ("log.retention.ms", SET, "x"), 42),
        (BROKER, "2", ("log.retention.ms", SET, "5"), 42),
        (BROKER, "x", ("log.retention.ms", SET, "5"), 42),
        (8, "1", ("no.such.logger", SET, "DEBUG"), 40),
        (8, "1", ("root", APPEND, "DEBUG"), 42),
        (8, "1", ("root", DELETE, None), 42),
        (8, "2", ("root", SET, "INFO"), 42),
        (99, "x", ("retention.ms", SET, "5"), 42),
    ],
)
def test_changes_that_are_refused(broker, kind, name, change, code):
    assert alter(broker, kind, name, change) == code


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
    broker.request(CreateTopicsRequest(topics=[new(name, configs={"cleanup.policy": "compact"})]))
    wait_for_leaders(broker, name)
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
