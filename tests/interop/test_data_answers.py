"""Produce, Fetch and offsets at unusual values: answered by Fencepost as by Apache Kafka.

As in `test_admin_answers`, every case runs against both.
"""

from __future__ import annotations

import pytest

from fencepost.batch.records import BatchBuilder
from fencepost.client.connection import Connection
from fencepost.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fencepost.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .topic_words import create, fresh, new

pytestmark = [pytest.mark.interop, pytest.mark.slow]

INT32_MIN = -(1 << 31)


def topic_with(broker: Connection, *times: int, **configs: str) -> str:
    """A topic of two partitions; the first has a record with each of these times."""
    name = fresh()
    given: dict[str, str | None] = {key.replace("_", "."): text for key, text in configs.items()}
    create(broker, new(name, 2, configs=given))
    assert produce(broker, name, *times) == (0, 0)
    return name


def produce(
    broker: Connection,
    name: str,
    *times: int,
    acks: int = -1,
    timeout_ms: int = 20_000,
    sequence: int = -1,
) -> tuple[int, int]:
    builder = BatchBuilder()
    for time in times:
        builder.append(b"key", b"value", timestamp_ms=time)
    ids = {} if sequence < 0 else {"producer_id": 7_000_000, "producer_epoch": 0}
    records = builder.build(**ids, **({"base_sequence": sequence} if ids else {}))
    data = TopicProduceData(
        name=name, partition_data=[PartitionProduceData(index=0, records=records)]
    )
    request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[data])
    (answer,) = broker.request(request, 9).responses[0].partition_responses
    return answer.error_code, answer.base_offset


def fetch(
    broker: Connection, name: str, offset: int, version: int, current: int = -1, last: int = -1
) -> tuple[int, bool, int]:
    """Error code, whether there are records, the epoch of a divergence."""
    partition = FetchPartition(
        partition=0,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
        current_leader_epoch=current,
        last_fetched_epoch=last,
    )
    topics = [FetchTopic(topic=name, partitions=[partition])]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics)
    (answer,) = broker.request(request, version).responses[0].partitions
    return answer.error_code, bool(answer.records), answer.diverging_epoch.epoch


def test_every_version_reads_zstd(broker: Connection) -> None:
    name = topic_with(broker, 5, compression_type="zstd")
    assert {fetch(broker, name, 0, version) for version in range(4, 13)} == {(0, True, -1)}


@pytest.mark.parametrize("epoch", [-2, INT32_MIN])
def test_a_negative_epoch_is_none_to_fetch_alone(broker: Connection, epoch: int) -> None:
    name = topic_with(broker, 5)
    for version in (9, 12):
        assert fetch(broker, name, 0, version, epoch) == (0, True, -1)
    assert fetch(broker, name, 0, 12, epoch, epoch) == (0, True, -1)
    assert fetch(broker, name, 1, 12, epoch, epoch) == (0, False, -1)
    assert list_offset(broker, name, -1, current=epoch)[0] == 74
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=name, partitions=[asked])]
    )
    (answer,) = broker.request(request).topics[0].partitions
    assert answer.error_code == 74


def list_offset(
    broker: Connection, name: str, timestamp: int, current: int = -1
) -> tuple[int, int, int, int]:
    asked = ListOffsetsPartition(
        partition_index=0, timestamp=timestamp, current_leader_epoch=current
    )
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[asked])]
    )
    (found,) = broker.request(request, 7).topics[0].partitions
    return found.error_code, found.offset, found.timestamp, found.leader_epoch


@pytest.mark.parametrize(
    ("times", "greatest"), [((-1, -1), (0, 0, -1, 0)), ((-1, 9, 9, 3), (0, 1, 9, 0))]
)
def test_the_greatest_timestamp(
    broker: Connection, times: tuple[int, ...], greatest: tuple[int, int, int, int]
) -> None:
    name = topic_with(broker, *times)
    assert list_offset(broker, name, -3) == greatest
    assert list_offset(broker, name, 10) == (0, -1, -1, -1)


@pytest.mark.parametrize("acks", [-1, 1])
@pytest.mark.parametrize("timeout_ms", [0, -5, INT32_MIN])
def test_without_time_the_only_replica_acknowledges(
    broker: Connection, acks: int, timeout_ms: int
) -> None:
    name = topic_with(broker, 5)
    assert produce(broker, name, 6, acks=acks, timeout_ms=timeout_ms) == (0, 1)


def test_any_first_sequence_of_an_unknown_producer_is_taken(broker: Connection) -> None:
    """So it is in Kafka 4.4, too; 4.5 has KAFKA-15591."""
    name = fresh()
    create(broker, new(name, 1))
    assert produce(broker, name, 5, sequence=17) == (0, 0)
    assert produce(broker, name, 5, sequence=19)[0] == 45
    assert produce(broker, name, 5, sequence=18) == (0, 1)


@pytest.mark.parametrize("version", [7, 12])
def test_what_a_session_is_told_to_read_and_to_forget_is_forgotten(
    broker: Connection, version: int
) -> None:
    name = topic_with(broker, 5)

    def ask(*indexes: int, **fields: object) -> tuple[int, list[int]]:
        partitions = [
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
            for index in indexes
        ]
        topics = [FetchTopic(topic=name, partitions=partitions)] if partitions else []
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics, **fields
        )
        answer = broker.request(request, version)
        assert answer.error_code == 0
        named = [one.partition_index for topic in answer.responses for one in topic.partitions]
        return answer.session_id, sorted(named)

    session_id, named = ask(0, 1, session_epoch=0)
    assert session_id > 0 and named == [0, 1]
    forgotten = [ForgottenTopic(topic=name, partitions=[0])]
    again = {"session_id": session_id}
    assert ask(0, session_epoch=1, forgotten_topics_data=forgotten, **again) == (session_id, [])
    assert ask(session_epoch=2, **again) == (session_id, [])
