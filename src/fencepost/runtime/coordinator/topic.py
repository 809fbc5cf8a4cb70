"""`TopicCoordinators`: the coordinators of one kind on a node, by the ids that clients name.

An id belongs to the partition of an internal topic that it hashes to, and to the broker that leads
that partition. Requests come through `submit`, which finds the coordinator; what cannot be answered
here is answered with the error that sends the client where it can: NOT_COORDINATOR (find the
coordinator again), COORDINATOR_LOAD_IN_PROGRESS (wait here).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

from fencepost.machines.coordinator import CoordinatorMachine, Decision
from fencepost.machines.group.partitioner import partition_for
from fencepost.runtime.coordinator.coordinator import Coordinator, CoordinatorKind, OnReply
from fencepost.runtime.coordinator.partition import LedPartition
from fencepost.runtime.coordinator.runtime import CoordinatorRuntime
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.ports import MachinePorts
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.errors import ErrorCode

M = TypeVar("M", bound="CoordinatorMachine[Any]")


class TopicCoordinators(Generic[M]):
    """See the module. It watches a node's replicas (`runtime.replicas.ReplicaWatcher`)."""

    def __init__(
        self,
        topic: str,
        node_id: int,
        ports: MachinePorts,
        metadata: MetadataHost,
        kind: CoordinatorKind[M],
    ) -> None:
        self.topic = topic
        self._node_id = node_id
        self._ports = ports
        self._metadata = metadata
        self._closed = False
        self.runtime = CoordinatorRuntime(kind, ports, ports.scheduler.lane())

    def close(self) -> None:
        """Unload all coordinators; requests that wait are answered with NOT_COORDINATOR."""
        self._closed = True
        self.runtime.close()

    # -- for handlers ----------------------------------------------------------------------

    def submit(
        self, key: str, decide: Callable[[M, OnReply], Decision[Any]], on_reply: OnReply
    ) -> None:
        """Have the id's coordinator decide; see `Coordinator.submit`."""
        coordinator = self.coordinator_of(key)
        if isinstance(coordinator, Coordinator):
            coordinator.submit(decide, on_reply)
        else:
            on_reply(coordinator, None)

    def coordinator_of(self, key: str) -> Coordinator[M] | ErrorCode:
        """The coordinator of the id, or why it is not here."""
        topic = self._metadata.image.topics_by_name.get(self.topic)
        if topic is None or self._closed:
            return ErrorCode.NOT_COORDINATOR
        index = partition_for(key, len(topic.partitions))
        coordinator = self.runtime.get(index)
        if coordinator is not None:
            return coordinator
        if topic.partitions[index].leader == self._node_id:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # its log is still being opened
        return ErrorCode.NOT_COORDINATOR

    def partition_of(self, key: str) -> int | None:
        """The id's partition of the topic; None while there is no such topic."""
        topic = self._metadata.image.topics_by_name.get(self.topic)
        return None if topic is None else partition_for(key, len(topic.partitions))

    def coordinators(self) -> Iterator[Coordinator[M]]:
        """The coordinators of this node, by partition."""
        return self.runtime.all()

    # -- leadership ------------------------------------------------------------------------

    def became_leader(self, hosted: HostedPartition, leader_epoch: int) -> None:
        """This node leads the partition, from now on or in a new epoch."""
        if hosted.topic != self.topic or self._closed:
            return
        index = hosted.index
        partition = LedPartition(self._ports.driver, hosted.key, hosted.machine, hosted.log)
        hosted.on_log_replaced = partition.replace_log
        hosted.on_high_watermark = partial(self.runtime.high_watermark_moved, index)
        self.runtime.load(index, partition, leader_epoch)

    def lost_leadership(self, hosted: HostedPartition, leader_epoch: int | None) -> None:
        """Another node leads the partition in that epoch; None if it is not here any more."""
        if hosted.topic == self.topic:
            self.runtime.unload(hosted.index, leader_epoch)
