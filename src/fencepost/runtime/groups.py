"""The group coordinators of a node: one for each partition of `__consumer_offsets` it leads.

A group belongs to the partition that its id hashes to, and to whoever leads that. Requests come
through `submit`, which finds the coordinator; what cannot be answered here is answered with the
error that sends the client where it can: NOT_COORDINATOR (ask who is),
COORDINATOR_LOAD_IN_PROGRESS (wait here). What a coordinator does is `machines.group`, how it is
run is `runtime.coordinator`; here it is told which partitions this node leads, and which topics are
gone. A broker and a simulated broker run this class.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

from fencepost.machines.group import Decision, GroupCoordinator, partition_for
from fencepost.machines.image import ClusterImage, ImageDelta
from fencepost.runtime.coordinator import (
    Coordinator,
    CoordinatorKind,
    CoordinatorRuntime,
    LedPartition,
    OnReply,
)
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.ports import MachinePorts
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"

Decide = Callable[[GroupCoordinator, Any], Decision]
"""Decides about a request, given the coordinator and the token to decide with."""


class GroupCoordinators:
    """See the module. It watches a node's replicas (`runtime.replicas.ReplicaWatcher`)."""

    def __init__(
        self,
        node_id: int,
        ports: MachinePorts,
        metadata: MetadataHost,
        kind: CoordinatorKind[GroupCoordinator],
    ) -> None:
        """`kind` is how they are run; what they do once they are loaded is added here."""
        self._node_id = node_id
        self._ports = ports
        self._metadata = metadata
        self._closed = False
        kind = replace(kind, on_loaded=self._loaded)
        self.runtime = CoordinatorRuntime(kind, ports, ports.scheduler.lane())
        metadata.on_image(self._image_changed)

    def close(self) -> None:
        """Unload all coordinators; whoever waits is told to look for another one."""
        self._closed = True
        self.runtime.close()

    # -- for handlers ----------------------------------------------------------------------

    def submit(self, group_id: str, decide: Decide, on_reply: OnReply) -> None:
        """Have the group's coordinator decide; see `Coordinator.submit`."""
        coordinator = self.coordinator_of(group_id)
        if isinstance(coordinator, Coordinator):
            coordinator.submit(decide, on_reply)
        else:
            on_reply(coordinator, None)

    def coordinator_of(self, group_id: str) -> Coordinator[GroupCoordinator] | ErrorCode:
        """The coordinator of the group, or why it is not here."""
        topic = self._metadata.image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is None or self._closed:
            return ErrorCode.NOT_COORDINATOR
        index = partition_for(group_id, len(topic.partitions))
        coordinator = self.runtime.get(index)
        if coordinator is not None:
            return coordinator
        if topic.partitions[index].leader == self._node_id:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # its log is still being opened
        return ErrorCode.NOT_COORDINATOR

    def partition_of(self, group_id: str) -> int | None:
        """The group's partition of `__consumer_offsets`; None while there is no such topic."""
        topic = self._metadata.image.topics_by_name.get(OFFSETS_TOPIC)
        return None if topic is None else partition_for(group_id, len(topic.partitions))

    def coordinators(self) -> Iterator[Coordinator[GroupCoordinator]]:
        """The coordinators of this node, by partition."""
        return self.runtime.all()

    # -- leadership ------------------------------------------------------------------------

    def became_leader(self, hosted: HostedPartition, leader_epoch: int) -> None:
        """This node leads the partition, from now on or in a new epoch."""
        if hosted.topic != OFFSETS_TOPIC or self._closed:
            return
        index = hosted.index
        partition = LedPartition(self._ports.driver, hosted.key, hosted.machine, hosted.log)
        hosted.on_log_replaced = partition.replace_log
        hosted.on_high_watermark = partial(self.runtime.high_watermark_moved, index)
        self.runtime.load(index, partition, leader_epoch)

    def lost_leadership(self, hosted: HostedPartition, leader_epoch: int | None) -> None:
        """Another node leads the partition in that epoch; None if it is not here any more."""
        if hosted.topic == OFFSETS_TOPIC:
            self.runtime.unload(hosted.index, leader_epoch)

    # -- topics that are deleted -------------------------------------------------------------

    def _image_changed(self, image: ClusterImage, delta: ImageDelta) -> None:
        if not delta.deleted_topics:
            return
        ids = {topic.name: topic.topic_id for topic in delta.deleted_topics}

        def is_gone(name: str, topic_id: Uuid) -> bool:
            return name in ids and topic_id in (Uuid.ZERO, ids[name])

        self.runtime.tell_all(lambda machine: machine.decide_topics_deleted(is_gone))

    def _loaded(self, coordinator: Coordinator[GroupCoordinator]) -> None:
        """Topics may have been deleted while nobody coordinated its groups."""
        if coordinator.machine.groups:
            count = len(coordinator.machine.groups)
            log.info("%s: loaded %d groups", coordinator.partition, count)
        is_gone = missing_from(self._metadata.image)
        coordinator.tell(lambda machine: machine.decide_topics_deleted(is_gone))


def missing_from(image: ClusterImage) -> Callable[[str, Uuid], bool]:
    """Whether a topic of that name, and id if one is known, is not in the cluster."""

    def is_gone(name: str, topic_id: Uuid) -> bool:
        topic = image.topics_by_name.get(name)
        return topic is None or topic_id not in (Uuid.ZERO, topic.topic_id)

    return is_gone
