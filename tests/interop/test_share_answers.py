"""The same share fetches and acknowledgements to Fencepost and to Apache Kafka: the same answers.

The rows are rules of KIP-932, KIP-1206 and KIP-1222; the expected answers are Kafka's 4.4.0.
"""

from __future__ import annotations

import uuid
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
from .conftest import node_of_each_kind

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
NOWHERE = Uuid(b"no topic has this"[:16])


servers = node_of_each_kind(**ONE_REPLICA)


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


NOT_ACQUIRED = "The offset cannot be acknowledged. The offset is not acquired."
OTHERS = "Member is not the owner of batch record"
PAST_LAST = "Batch record not found. The last offset in request is past acquired records."
PAST_FIRST = "Batch record not found. The first offset in request is past acquired records."
NOTHING = dict.fromkeys(("max_wait_ms", "min_bytes", "max_bytes", "max_records"), 0)

ACKNOWLEDGED: list[tuple[list[tuple[int, int, list[int]]], dict[str, Any], Any]] = [
    ([(1, 0, [ACCEPT])], {}, ([42], [])),
    ([(0, 0, [])], {}, ([42], [])),
    ([(0, 3, [ACCEPT, ACCEPT])], {}, ([42], [])),
    ([(0, 0, [5])], {}, ([42], [])),
    ([(0, 0, [-1])], {}, ([42], [])),
    ([(0, 0, [RENEW])], {}, ([42], [])),
    ([(0, 0, [RENEW])], {"version": 1}, ([42], [])),
    ([(2, 3, [ACCEPT]), (0, 1, [ACCEPT])], {}, ([42], [])),
    ([(0, 1, [ACCEPT]), (1, 2, [ACCEPT])], {}, ([121], [NOT_ACQUIRED])),
    ([(0, 99, [ACCEPT])], {}, ([42], [PAST_LAST])),
    ([(90, 99, [ACCEPT])], {}, ([42], [PAST_FIRST])),
    ([(4, 5, [ACCEPT])], {}, ([121], [OTHERS])),
    ([(0, 0, [ACCEPT]), (4, 5, [ACCEPT])], {}, ([121], [OTHERS])),
    ([], {}, ([], [])),
    ([(0, 0, [ACCEPT])], {}, ([0], [])),
    ([(0, 0, [ACCEPT])], {}, ([0], [])),  # in front of the start offset
    ([(0, 1, [ACCEPT])], {}, ([0], [])),
    ([(2, 2, [RELEASE])], {}, ([0], [])),
    ([(2, 2, [RELEASE])], {}, ([121], [NOT_ACQUIRED])),
    ([(3, 3, [REJECT])], {}, ([0], [])),
    ([(0, 0, [ACCEPT])], {"share_session_epoch": 0}, (123, [])),
    ([(0, 0, [ACCEPT])], {"share_session_epoch": 77}, (123, [])),
    ([(0, 0, [ACCEPT])], {"group_id": None}, (42, [])),
    ([(0, 0, [ACCEPT])], {"group_id": ""}, (122, [])),
    ([(0, 0, [ACCEPT])], {"member_id": ""}, (42, [])),
    ([(0, 0, [ACCEPT])], {"member_id": None}, (42, [])),
    ([(0, 0, [ACCEPT])], {"member_id": "x" * 37}, (42, [])),
    ([(0, 0, [ACCEPT])], {"member_id": "z"}, (122, [])),
    ([(0, 0, [ACCEPT])], {"member_id": "z", "share_session_epoch": -1}, (122, [])),
]
"""Of member a, which has 0-3; member b has 4-7, one batch each: what a says, and the answer."""

FETCHED: list[tuple[str, list[tuple[int, int, list[int]]], dict[str, Any], Any]] = [
    ("a", [], {}, ([(0, 0, [(2, 2, 2)])], [])),
    ("a", [(9, 0, [ACCEPT])], {}, ([(0, 42, [])], [])),
    ("a", [(99, 99, [ACCEPT])], {}, ([(0, 42, [])], [PAST_FIRST])),
    ("a", [(2, 2, [ACCEPT])], {}, ([(0, 0, [])], [])),
    ("b", [(4, 4, [RENEW])], {"is_renew_ack": True, **NOTHING}, ([(0, 0, [])], [])),
    ("b", [(4, 4, [RENEW])], {"is_renew_ack": True}, (42, [])),
    ("b", [(4, 4, [RENEW])], {}, ([(0, 42, [])], [])),
    ("b", [(4, 4, [ACCEPT])], {"share_session_epoch": 0}, (42, [])),
    ("b", [], {"share_session_epoch": 99}, (123, [])),
    ("b", [], {"group_id": None}, (42, [])),
    ("b", [], {"group_id": ""}, (122, [])),
    ("b", [], {"member_id": ""}, (42, [])),
    ("b", [], {"member_id": "z"}, (122, [])),
    ("b", [], {"max_records": 0}, ([], [])),
    ("b", [], {"max_bytes": 0}, ([], [])),
    ("b", [(4, 4, [ACCEPT])], {"share_session_epoch": -1}, ([(0, 0, [])], [])),
    ("b", [], {"share_session_epoch": 5}, (122, [])),
    ("a", [], {"max_wait_ms": 5_000}, ([(0, 0, [(5, 7, 2)])], [])),
    ("a", [], {"share_acquire_mode": 7}, (-1, [])),
    ("a", [], {}, (123, [])),  # the request that failed counts in the session
]
"""Behind `ACKNOWLEDGED`, in order: the member, its acknowledgements, fields, and the answer."""


def test_what_two_members_are_answered(servers: str) -> None:
    scene = Scene(servers)
    members = {name: scene.member(name) for name in "ab"}
    scene.produce(4)
    scene.produce(4)
    assert acquire(members["a"], max_records=1) == [(0, 3, 1)]
    assert acquire(members["b"], max_records=1) == [(4, 7, 1)]
    for batches, fields, expected in ACKNOWLEDGED:
        rows, _, texts = members["a"].acknowledge(*batches, **fields)
        assert (rows, texts) == expected, (batches, fields)
    for name, batches, fields, expected in FETCHED:
        rows, _, texts = members[name].fetch(*batches, **fields)
        assert (rows, texts) == expected, (name, batches, fields)


def test_pieces_and_isolation_of_what_was_delivered_often(servers: str) -> None:
    scene = Scene(servers, **{"share.delivery.count.limit": "3"})
    a = scene.member("a")
    for _ in range(4):
        scene.produce(10)
    for count in (1, 2):
        pieces = acquire(a, batch_size=10, max_wait_ms=1_000)
        assert pieces == [(first, first + 9, count) for first in (0, 10, 20, 30)]
        assert a.acknowledge((0, 39, [RELEASE]))[0] == [0]
    for offset in range(3):
        assert acquire(a) == [(offset, offset, 3)]


def test_record_limit_mode(servers: str) -> None:
    scene = Scene(servers)
    a = scene.member("a")
    for _ in range(4):
        scene.produce(10)
    exact = {"share_acquire_mode": 1}
    assert acquire(a, batch_size=10, max_records=25, **exact) == [(0, 24, 1)]
    assert acquire(a, batch_size=4, max_records=15, **exact) == [(25, 29, 1), (30, 39, 1)]


def test_the_limit_of_locks(servers: str) -> None:
    scene = Scene(servers, **{"share.partition.max.record.locks": "100"})
    a, b = scene.member("a"), scene.member("b")
    for _ in range(14):
        scene.produce(10)
    assert acquire(a, max_records=95, share_acquire_mode=1) == [(0, 94, 1)]
    assert acquire(a, max_records=95) == [(95, 99, 1)]
    assert a.fetch()[0] == []
    assert a.acknowledge((50, 54, [RELEASE]))[0] == [0]
    assert acquire(b) == [(50, 54, 2)]
    assert a.acknowledge((0, 9, [ACCEPT]))[0] == [0]
    assert acquire(b) == [(100, 109, 1)]
