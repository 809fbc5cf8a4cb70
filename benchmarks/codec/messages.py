"""What the codec benchmark reads and writes: messages with the contents of a busy small cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fencepost.wire import api
from fencepost.wire.api import (
    alter_partition,
    api_versions,
    fetch,
    join_group,
    metadata,
    offset_commit,
    offset_for_leader_epoch,
    produce,
)
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

TOPIC_ID = Uuid(bytes(range(16)))
RECORDS = bytes(1024)
"""Opaque to all codecs here but kio, which is asked for nothing more either."""


class Case(NamedTuple):
    """One message at one version; `detail` says how much is in it."""

    message: Message
    version: int
    detail: str

    @property
    def title(self) -> str:
        """The row of the case in a table."""
        return f"{type(self.message).__name__} v{self.version}{self.detail}"


def current_cases() -> list[Case]:
    """The versions that clients and brokers of today talk."""
    versions = {
        "ApiVersions": 3,
        "Metadata": 12,
        "Produce": 9,
        "Fetch": 12,
        "OffsetForLeaderEpoch": 4,
        "JoinGroup": 9,
        "OffsetCommit": 8,
        "AlterPartition": 3,
    }
    return list(_cases(versions))


def old_cases() -> list[Case]:
    """The newest versions that aiokafka has, none of which is flexible."""
    versions = {
        "ApiVersions": 2,
        "Metadata": 5,
        "Produce": 8,
        "Fetch": 11,
        "JoinGroup": 5,
        "OffsetCommit": 3,
    }
    return list(_cases(versions))


def _cases(versions: dict[str, int]) -> Iterator[Case]:
    for message, detail in _messages():
        version = versions.get(type(message).__name__.removesuffix("Request"))
        if version is None:
            version = versions.get(type(message).__name__.removesuffix("Response"))
        if version is not None:
            yield Case(message, version, detail)


def _messages() -> Iterator[tuple[Message, str]]:
    yield api.ApiVersionsRequest(client_software_name="fencepost", client_software_version="1"), ""
    keys = [
        api_versions.ApiVersion(api_key=n, min_version=0, max_version=n % 17) for n in range(62)
    ]
    yield api.ApiVersionsResponse(api_keys=keys), ", 62 keys"
    yield _metadata_request(), ", 10 topics"
    yield _metadata_response(), ", 100 x 12"
    yield _produce_request(1), ", 1 x 1 KB"
    yield _produce_request(50), ", 50 x 1 KB"
    yield _produce_response(), ", 50 partitions"
    yield _fetch_request(), ", 50 partitions"
    yield _fetch_response(), ", 50 x 1 KB"
    yield _epochs_request(), ", 200 partitions"
    yield epochs_response(0), ", 200 partitions"
    yield _join_request(), ", 2 protocols"
    yield _join_response(), ", 10 members"
    yield _commit_request(), ", 50 partitions"
    yield _commit_response(), ", 50 partitions"
    yield _isr_request(), ", 50 partitions"
    yield _isr_response(), ", 50 partitions"


def _metadata_request() -> Message:
    return api.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=f"topic-{n}") for n in range(10)]
    )


def _metadata_response() -> Message:
    partitions = [
        metadata.MetadataResponsePartition(
            partition_index=n,
            leader_id=1001 + n % 3,
            leader_epoch=300 + n,
            replica_nodes=[1001, 1002, 1003],
            isr_nodes=[1001, 1002, 1003],
        )
        for n in range(12)
    ]
    return api.MetadataResponse(
        brokers=[
            metadata.MetadataResponseBroker(
                node_id=1001 + n, host=f"broker-{n}.example", port=9092, rack="a"
            )
            for n in range(3)
        ],
        cluster_id="c",
        controller_id=1,
        topics=[
            metadata.MetadataResponseTopic(name=f"topic-{n}", partitions=partitions)
            for n in range(100)
        ],
    )


def _produce_request(count: int) -> Message:
    data = [produce.PartitionProduceData(index=n, records=RECORDS) for n in range(count)]
    topic = produce.TopicProduceData(name="topic-1", partition_data=data)
    return api.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def _produce_response() -> Message:
    partitions = [
        produce.PartitionProduceResponse(
            index=n, base_offset=(1 << 33) + n, log_append_time_ms=-1, log_start_offset=1000 + n
        )
        for n in range(50)
    ]
    topic = produce.TopicProduceResponse(name="topic-1", partition_responses=partitions)
    return api.ProduceResponse(responses=[topic])


def _fetch_request() -> Message:
    partitions = [
        fetch.FetchPartition(
            partition=n,
            current_leader_epoch=700 + n,
            fetch_offset=(1 << 33) + n,
            log_start_offset=1000 + n,
            partition_max_bytes=1 << 20,
        )
        for n in range(50)
    ]
    return api.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        session_id=9,
        session_epoch=4,
        topics=[fetch.FetchTopic(topic="topic-1", partitions=partitions)],
    )


def _fetch_response() -> Message:
    partitions = [
        fetch.PartitionData(
            partition_index=n,
            high_watermark=(1 << 33) + n,
            last_stable_offset=(1 << 33) + n,
            log_start_offset=1000 + n,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=RECORDS,
        )
        for n in range(50)
    ]
    topic = fetch.FetchableTopicResponse(topic="topic-1", partitions=partitions)
    return api.FetchResponse(session_id=9, responses=[topic])


def _epochs_request() -> Message:
    partitions = [
        offset_for_leader_epoch.OffsetForLeaderPartition(
            partition=n, current_leader_epoch=700 + n, leader_epoch=699 + n
        )
        for n in range(200)
    ]
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic="topic-1", partitions=partitions)
    return api.OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])


def epochs_response(shift: int) -> Message:
    """An answer about 200 partitions whose epochs and offsets lie `shift` higher."""
    partitions = [
        offset_for_leader_epoch.EpochEndOffset(
            partition=n, leader_epoch=shift + 699 + n, end_offset=(1 << 33) + shift + n
        )
        for n in range(200)
    ]
    topic = offset_for_leader_epoch.OffsetForLeaderTopicResult(
        topic="topic-1", partitions=partitions
    )
    return api.OffsetForLeaderEpochResponse(topics=[topic])


def _join_request() -> Message:
    protocols = [
        join_group.JoinGroupRequestProtocol(name=name, metadata=bytes(200))
        for name in ("range", "cooperative-sticky")
    ]
    return api.JoinGroupRequest(
        group_id="billing",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id="consumer-1-4b6c1f0e-6b8e-4e1b-9b1e-0123456789ab",
        protocol_type="consumer",
        protocols=protocols,
    )


def _join_response() -> Message:
    members = [
        join_group.JoinGroupResponseMember(
            member_id=f"consumer-{n}-4b6c1f0e-6b8e-4e1b-9b1e-0123456789ab", metadata=bytes(200)
        )
        for n in range(10)
    ]
    return api.JoinGroupResponse(
        generation_id=17,
        protocol_type="consumer",
        protocol_name="range",
        leader=members[0].member_id,
        member_id=members[0].member_id,
        members=members,
    )


def _commit_request() -> Message:
    partitions = [
        offset_commit.OffsetCommitRequestPartition(
            partition_index=n, committed_offset=(1 << 33) + n, committed_metadata=""
        )
        for n in range(50)
    ]
    return api.OffsetCommitRequest(
        group_id="billing",
        generation_id_or_member_epoch=17,
        member_id="consumer-1-4b6c1f0e-6b8e-4e1b-9b1e-0123456789ab",
        topics=[offset_commit.OffsetCommitRequestTopic(name="topic-1", partitions=partitions)],
    )


def _commit_response() -> Message:
    partitions = [offset_commit.OffsetCommitResponsePartition(partition_index=n) for n in range(50)]
    topic = offset_commit.OffsetCommitResponseTopic(name="topic-1", partitions=partitions)
    return api.OffsetCommitResponse(topics=[topic])


def _isr_request() -> Message:
    in_sync = [alter_partition.BrokerState(broker_id=1001 + n, broker_epoch=77) for n in range(3)]
    partitions = [
        alter_partition.PartitionDataRequest(
            partition_index=n, leader_epoch=700 + n, new_isr_with_epochs=in_sync, partition_epoch=n
        )
        for n in range(50)
    ]
    topic = alter_partition.TopicDataRequest(topic_id=TOPIC_ID, partitions=partitions)
    return api.AlterPartitionRequest(broker_id=1001, broker_epoch=77, topics=[topic])


def _isr_response() -> Message:
    partitions = [
        alter_partition.PartitionDataResponse(
            partition_index=n,
            leader_id=1001,
            leader_epoch=700 + n,
            isr=[1001, 1002, 1003],
            partition_epoch=n,
        )
        for n in range(50)
    ]
    topic = alter_partition.TopicDataResponse(topic_id=TOPIC_ID, partitions=partitions)
    return api.AlterPartitionResponse(topics=[topic])
