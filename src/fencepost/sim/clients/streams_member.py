"""A member of a streams group (KIP-1071): it gives up and takes over tasks, active and standby.

It does what a thread of Kafka Streams does that is a process of its own: it says what it runs when
it joins, and which tasks it has with every heartbeat, and gives up at once what it is told to. The
application is one subtopology with a store, whose changelog the coordinator has created. It has no
records to process: what it would commit, members of consumer groups do.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.sim.clients.epoch_member import REBALANCE_TIMEOUT_MS, EpochMember
from fencepost.sim.group_oracle import task_key
from fencepost.sim.partition_oracle import PartitionKey
from fencepost.sim.surroundings import Surroundings
from fencepost.sim.workload import STREAMS_SOURCE
from fencepost.wire.api.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from fencepost.wire.message import Message

GROUP_ID: Final = "streams-members"
SUBTOPOLOGY: Final = "0"
SOURCE_PARTITIONS: Final = 3
CHANGELOG: Final = "__store-changelog"
"""No producer of a world writes to topics with such names."""


class StreamsMember(EpochMember):
    """See the module docstring; `owned` are its active tasks."""

    def __init__(self, world: Surroundings, client_id: int, instance_id: str | None = None) -> None:
        super().__init__(world, client_id, instance_id, GROUP_ID)
        self.standby: frozenset[int] = frozenset()

    def _turn(self) -> None:
        if self.source() is None:
            self.begin()
            self.world.workload.create_internal_topic(STREAMS_SOURCE, SOURCE_PARTITIONS)
        else:
            super()._turn()

    def source(self) -> Any:
        """The topic that the application reads, as some broker knows it; None if there is none."""
        image = self.image()
        return None if image is None else image.topics_by_name.get(STREAMS_SOURCE)

    def heartbeat(self) -> None:
        """Join, or say that it is there and which tasks it has; hear which it is to have."""
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            active_tasks=_listed(frozenset(index for _, index in self.owned)),
            standby_tasks=_listed(self.standby),
            warmup_tasks=[],
        )
        if self._says_all or self.epoch == 0:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.process_id = self.member_id
        if self.epoch == 0:
            request.topology = _topology()
        self._ask(request, self._heard)

    def commit(self, partition: PartitionKey) -> None:
        """Members of consumer groups do."""
        self.heartbeat()

    fetch = commit

    def _take(self, response: Any) -> None:
        if response.active_tasks is not None:
            self.owned = frozenset(task_key(*one) for one in _tasks(response.active_tasks))
            self.standby = frozenset(index for _, index in _tasks(response.standby_tasks or ()))

    def _is_out(self) -> None:
        super()._is_out()
        self.standby = frozenset()

    def _leave_request(self) -> Message:
        self.standby = frozenset()
        return StreamsGroupHeartbeatRequest(**self._leaving())


def _topology() -> Topology:
    store = TopicInfo(name=CHANGELOG, partitions=0, replication_factor=0, topic_configs=[])
    only = Subtopology(
        subtopology_id=SUBTOPOLOGY,
        source_topics=[STREAMS_SOURCE],
        source_topic_regex=[],
        state_changelog_topics=[store],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    return Topology(epoch=0, subtopologies=[only])


def _listed(indexes: frozenset[int]) -> list[TaskIds]:
    if not indexes:
        return []
    return [TaskIds(subtopology_id=SUBTOPOLOGY, partitions=sorted(indexes))]


def _tasks(listed: Any) -> list[tuple[str, int]]:
    return [(one.subtopology_id, index) for one in listed for index in one.partitions]
