"""A client of a group's coordinator: whom it asks, and which answers say to ask again."""

from __future__ import annotations

from typing import Final

from fencepost.machines.group.partitioner import partition_for
from fencepost.runtime.internal_topics import OFFSETS_TOPIC
from fencepost.sim.calls import ANY_VERSION, Versions
from fencepost.sim.clients.client import Client, OnAnswer
from fencepost.sim.partition_oracle import PartitionKey
from fencepost.sim.surroundings import Surroundings
from fencepost.wire.api.heartbeat import HeartbeatRequest
from fencepost.wire.api.join_group import JoinGroupRequest
from fencepost.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

RETRIABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The last two say that the coordinator does not know a topic yet: OffsetCommit from version 10 on,
which has topic ids, and before."""
STATIC_FROM: Final[dict[type[Message], int]] = {
    HeartbeatRequest: 3,
    JoinGroupRequest: 5,
    OffsetCommitRequest: 7,
}
"""The first versions that have an instance id, as far as the world's floors are below (KIP-345).
Kafka's client does not work with a broker that has none of these, so no broker of a world is so
old for a static member."""


class GroupClient(Client):
    """A client that speaks for a group."""

    def __init__(
        self,
        world: Surroundings,
        client_id: int,
        group_id: str,
        instance_id: str | None = None,
    ) -> None:
        """With an `instance_id`, a static member."""
        super().__init__(world, client_id)
        self.group_id = group_id
        self.instance_id = instance_id

    def ask(
        self,
        broker_id: int,
        request: Message,
        then: OnAnswer,
        between: Versions = ANY_VERSION,
    ) -> None:
        """As `Client.ask`; a static member asks in a version that can say who it is."""
        lowest, highest = between
        floor = None if self.instance_id is None else STATIC_FROM.get(type(request))
        if floor is not None:
            lowest = max(floor, lowest or 0)
        super().ask(broker_id, request, then, (lowest, highest))

    def offsets_partition(self) -> PartitionKey | None:
        """The partition that its group lives in; None if it knows of none."""
        image = self.image()
        topic = None if image is None else image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is None:
            return None
        return topic.topic_id, partition_for(self.group_id, len(topic.partitions))

    def coordinator(self) -> int | None:
        """The broker to ask about its group; None if no coordinator of it is known."""
        partition = self.offsets_partition()
        return None if partition is None else self.leader_of(partition)

    def has_offsets_topic(self) -> bool:
        """Whether groups have a topic to live in; where it is missing it is created."""
        if self.offsets_partition() is not None:
            return True
        self.world.workload.create_internal_topic(OFFSETS_TOPIC, 1 + self.lane.pick(2))
        return False

    def fetch_request(
        self, key: PartitionKey, topic: str, member_id: str | None = None, epoch: int = -1
    ) -> OffsetFetchRequest:
        """Ask what is committed for one partition; as a member, if it is one."""
        named = OffsetFetchRequestTopics(name=topic, topic_id=key[0], partition_indexes=[key[1]])
        group = OffsetFetchRequestGroup(
            group_id=self.group_id, member_id=member_id, member_epoch=epoch, topics=[named]
        )
        return OffsetFetchRequest(groups=[group])

    def commit_request(
        self, key: PartitionKey, topic: str, offset: int, member_id: str = "", generation: int = -1
    ) -> OffsetCommitRequest:
        """Commit an offset of one partition; as a member, if it is one."""
        partition = OffsetCommitRequestPartition(
            partition_index=key[1], committed_offset=offset, committed_metadata=""
        )
        named = OffsetCommitRequestTopic(name=topic, topic_id=key[0], partitions=[partition])
        return OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=self.instance_id,
            topics=[named],
        )
