"""The same share fetches and acknowledgements to Fencepost and to Apache Kafka: the same answers.

The rows are rules of KIP-932, KIP-1206 and KIP-1222; the expected answers are Kafka's 4.4.0.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.batch.records import BatchBuilder
from fencepost.client.connection import Connection
from fencepost.wire.api import (
    CreateTopicsRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    ProduceRequest,
    ShareGroupHeartbeatRequest,
    share_acknowledge as acknowledging,
    share_fetch as fetching,
)
from fencepost.wire.api.create_topics import CreatableTopic
from fencepost.wire.api.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData
from fencepost.wire.types import Uuid

from ..waiting import eventually
from .conftest import one_node

pytestmark = [pytest.mark.interop, pytest.mark.slow]

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
ONE_REPLICA = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.min.record.lock.duration.ms": "1000",
}
GROUP_RESOURCE = 32
COORDINATOR_ERRORS = (14, 15, 16)
NOWHERE = Uuid(b"nobody has this!")


@pytest.fixture(scope="module", params=["fencepost", "apache"])
def servers(
    request: pytest.FixtureRequest, kafka_jars: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp(request.param)
    with one_node(request.param, directory, **ONE_REPLICA) as bootstrap_servers:
        yield bootstrap_servers


class Member:
    """A member of a share group, with a connection."""

    def __init__(self, servers: str, group_id: str, member_id: str) -> None:
        host, _, port = servers.rpartition(":")
        self.connection = Connection(host, int(port), timeout_ms=30_000)
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = 0
        self.topic_id = Uuid.ZERO

    def join(self, topic: str) -> None:
        """Send heartbeats until the partition is assigned."""
        epoch, names = 0, [topic]

        def is_assigned() -> bool:
            nonlocal epoch
            answer = self.connection.request(
                ShareGroupHeartbeatRequest(
                    group_id=self.group_id,
                    member_id=self.member_id,
                    member_epoch=epoch,
                    subscribed_topic_names=names,
                ),
                1,
            )
            if answer.error_code in COORDINATOR_ERRORS:  # its topic may not be there yet
                wanted = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group_id])
                self.connection.request(wanted, 4)
                return False
            assert answer.error_code == 0, answer
            epoch = answer.member_epoch
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)

        eventually(is_assigned)

    def fetch(self, *acks: tuple[int, int, list[int]], version: int = 2, **fields: Any) -> Any:
        batches = [
            fetching.AcknowledgementBatch(first_offset=f, last_offset=n, acknowledge_types=t)
            for f, n, t in acks
        ]
        partition = fetching.FetchPartition(partition_index=0, acknowledgement_batches=batches)
        topics = [fetching.FetchTopic(topic_id=self.topic_id, partitions=[partition])]
        values = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "max_wait_ms": 300,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": topics if acks or not self.epoch else [],
            **fields,
        }
        answer = self.connection.request(fetching.ShareFetchRequest(**values), version)
        if not answer.error_code and self.epoch >= 0:
            self.epoch += 1
        rows = [
            (
                row.error_code,
                row.acknowledge_error_code,
                [
                    (one.first_offset, one.last_offset, one.delivery_count)
                    for one in row.acquired_records
                ],
            )
            for topic in answer.responses
            for row in topic.partitions
        ]
        texts = [
            text
            for topic in answer.responses
            for row in topic.partitions
            for text in (row.error_message, row.acknowledge_error_message)
            if text is not None
        ]
        return answer.error_code or rows, answer.error_message, texts

    def acknowledge(
        self, *acks: tuple[int, int, list[int]], version: int = 2, **fields: Any
    ) -> Any:
        batches = [
            acknowledging.AcknowledgementBatch(first_offset=f, last_offset=n, acknowledge_types=t)
            for f, n, t in acks
        ]
        partition = acknowledging.AcknowledgePartition(
            partition_index=0, acknowledgement_batches=batches
        )
        values = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "topics": [
                acknowledging.AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])
            ],
            **fields,
        }
        request = acknowledging.ShareAcknowledgeRequest(**values)
        answer = self.connection.request(request, version)
        if not answer.error_code and self.epoch >= 0:
            self.epoch += 1
        rows = [row.error_code for topic in answer.responses for row in topic.partitions]
        texts = [
            row.error_message
            for topic in answer.responses
            for row in topic.partitions
            if row.error_message is not None
        ]
        return answer.error_code or rows, answer.error_message, texts


class Scene:
    """A topic of one partition, a group that reads it from the beginning, and members."""

    def __init__(self, servers: str, **configs: str) -> None:
        self.servers = servers
        name = f"s{uuid.uuid4().hex[:12]}"
        self.topic = self.group_id = name
        host, _, port = servers.rpartition(":")
        self.connection = Connection(host, int(port), timeout_ms=30_000)
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)],
            timeout_ms=30_000,
        )
        (made,) = self.connection.request(request, 7).topics
        assert made.error_code == 0, made
        self.topic_id = made.topic_id
        values = {"share.auto.offset.reset": "earliest", **configs}
        alter = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=GROUP_RESOURCE,
                    resource_name=name,
                    configs=[
                        AlterableConfig(name=key, config_operation=0, value=value)
                        for key, value in values.items()
                    ],
                )
            ]
        )
        (changed,) = self.connection.request(alter, 1).responses
        assert changed.error_code == 0, changed

    def member(self, member_id: str) -> Member:
        one = Member(self.servers, self.group_id, member_id)
        one.topic_id = self.topic_id
        one.join(self.topic)
        return one

    def produce(self, count: int) -> None:
        """One batch."""
        builder = BatchBuilder()
        for number in range(count):
            builder.append(None, b"%d" % number, timestamp_ms=1_000)
        row = PartitionProduceData(index=0, records=bytes(builder.build()))
        data = TopicProduceData(name=self.topic, partition_data=[row])
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])

        def is_written() -> bool:
            answer = self.connection.request(request, 9)
            return answer.responses[0].partition_responses[0].error_code == 0

        eventually(is_written)


def acquire(member: Member, **fields: Any) -> list[tuple[int, int, int]]:
    """Fetch until records are acquired."""

    def some() -> list[tuple[int, int, int]]:
        rows, _, _ = member.fetch(**fields)
        return [one for row in rows for one in row[2]] if isinstance(rows, list) else []

    return eventually(some)
