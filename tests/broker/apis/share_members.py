"""Share consumers for tests of a broker: a topic that a group reads, and members that speak raw."""

from __future__ import annotations

from typing import Any

from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.runtime.share_partitions import HostedSharePartition, SharePartitions
from fencepost.wire.api import IncrementalAlterConfigsRequest
from fencepost.wire.api.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from fencepost.wire.api.share_acknowledge import (
    AcknowledgementBatch as Acknowledged,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from fencepost.wire.api.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from fencepost.wire.errors import ErrorCode

from ...waiting import eventually
from ..conftest import RunningNode
from ..topic_requests import batch, make_topic, produce

STATE_TOPIC = {
    f"share.coordinator.state.topic.{key}": "1"
    for key in ("replication.factor", "min.isr", "num.partitions")
}
"""Configs of a node whose share coordinators have one replica."""


class Share:
    """A topic with one partition, read by members of one group over connections of their own."""

    def __init__(self, running: RunningNode, group_id: str, *, start_offset: int = 0) -> None:
        self.running = running
        self.group_id = group_id
        with running.connect() as client:
            self.topic = make_topic(client)
        self.topic_id = self.topic.topic_id
        self.initialize(start_offset)

    def initialize(self, start_offset: int, state_epoch: int = 1) -> None:
        """What a group coordinator does for a member that subscribes to the topic."""
        answers: list[ErrorCode] = []

        def ask() -> None:
            self.running.node.broker.late.share_persister.initialize(
                self.key,
                state_epoch=state_epoch,
                start_offset=start_offset,
                done=lambda error, message: answers.append(error),
            )

        self.running.call(ask)
        eventually(lambda: answers)
        assert answers == [ErrorCode.NONE]

    @property
    def key(self) -> SharePartitionKey:
        """The one share partition."""
        return SharePartitionKey(self.group_id, self.topic_id, 0)

    @property
    def partitions(self) -> SharePartitions:
        """All share partitions of the node."""
        late = self.running.node.broker.late
        found: SharePartitions = self.running.call(lambda: late.share_sessions.partitions)
        return found

    def hosted(self) -> HostedSharePartition | None:
        """The share partition, if the node has it now."""
        found: HostedSharePartition | None = self.running.call(self.partitions.find, self.key)
        return found

    def is_waited_for(self) -> bool:
        """Whether a fetch waits for it, and its state has been read."""
        found = self.hosted()
        return found is not None and found.machine is not None and bool(found.waiters)

    def produce(self, *values: bytes) -> None:
        """All in one batch."""
        with self.running.connect() as client:
            assert produce(client, self.topic, batch(*values)).error_code == 0


class Member:
    """One member with a connection and a session."""

    def __init__(self, share: Share, member_id: str) -> None:
        self.share = share
        self.member_id = member_id
        self.client = share.running.connect()
        self.epoch = 0

    def fetch_request(self, *acknowledged: tuple[int, int, list[int]], **fields: Any) -> Any:
        batches = [
            AcknowledgementBatch(first_offset=f, last_offset=n, acknowledge_types=t)
            for f, n, t in acknowledged
        ]
        partition = FetchPartition(partition_index=0, acknowledgement_batches=batches)
        names = not self.epoch or acknowledged
        values = {
            "group_id": self.share.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "max_wait_ms": 10_000,
            "min_bytes": 1,
            "max_records": 500,
            "batch_size": 500,
            "topics": [FetchTopic(topic_id=self.share.topic_id, partitions=[partition])]
            if names
            else [],
        }
        return ShareFetchRequest(**{**values, **fields})

    def fetch(
        self, *acknowledged: tuple[int, int, list[int]], version: int = 2, **fields: Any
    ) -> Any:
        answer = self.client.ask(self.fetch_request(*acknowledged, **fields), version)
        if not answer.error_code:
            self.epoch += 1
        return answer

    def rows(self, *acknowledged: tuple[int, int, list[int]], **fields: Any) -> list[Any]:
        answer = self.fetch(*acknowledged, **fields)
        assert answer.error_code == 0, answer
        return [row for topic in answer.responses for row in topic.partitions]

    def acquire(self, **fields: Any) -> list[tuple[int, int, int]]:
        return [
            (one.first_offset, one.last_offset, one.delivery_count)
            for row in self.rows(**fields)
            for one in row.acquired_records
        ]

    def acknowledge(
        self, *acknowledged: tuple[int, int, list[int]], version: int = 2, **fields: Any
    ) -> Any:
        batches = [
            Acknowledged(first_offset=f, last_offset=n, acknowledge_types=t)
            for f, n, t in acknowledged
        ]
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        topic = AcknowledgeTopic(topic_id=self.share.topic_id, partitions=[partition])
        values = {
            "group_id": self.share.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "topics": [topic],
        }
        answer = self.client.ask(ShareAcknowledgeRequest(**{**values, **fields}), version)
        if not answer.error_code:
            self.epoch += 1
        return answer

    def acknowledged(self, *acknowledged: tuple[int, int, list[int]], **fields: Any) -> int:
        answer = self.acknowledge(*acknowledged, **fields)
        assert answer.error_code == 0
        error: int = answer.responses[0].partitions[0].error_code
        return error

    def close(self) -> None:
        self.client.close()


GROUP_CONFIGS = 32


def set_configs(running: RunningNode, kind: int, name: str, **configs: str) -> None:
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
            for key, value in configs.items()
        ],
    )
    with running.connect() as client:
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = client.ask(request, 1)
    assert answer.responses[0].error_code == 0, answer


def set_group_configs(share: Share, **configs: str) -> None:
    """Set configs of the group, with underscores for dots."""
    set_configs(share.running, GROUP_CONFIGS, share.group_id, **configs)
