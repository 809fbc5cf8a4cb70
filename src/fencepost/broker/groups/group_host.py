"""The group coordinators of this node: one for each partition of `__consumer_offsets` it leads.

A group belongs to the partition that its id hashes to, and to whoever leads that. Requests come
through `submit`, which finds the coordinator; what cannot be answered here is answered with the
error that sends the client where it can: NOT_COORDINATOR (ask who is),
COORDINATOR_LOAD_IN_PROGRESS (wait here). What a coordinator does is `machines.group`, how it is
run is `runtime.coordinator`; here it is told which partitions this node leads, and which topics are
gone.

The topic is created when the first client asks for a coordinator (`find_coordinator`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from fencepost.broker.cluster.topic_creation import OFFSETS_TOPIC
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.loop.ports import AsyncPorts
from fencepost.broker.net.log_limit import LogLimit, cut
from fencepost.broker.storage.decompression import Decompression
from fencepost.machines.group import (
    Decision,
    GroupCodec,
    GroupConfig,
    GroupCoordinator,
    GroupMemory,
    partition_for,
)
from fencepost.machines.image import ClusterImage, ImageDelta
from fencepost.runtime.coordinator import (
    Coordinator,
    CoordinatorKind,
    CoordinatorRuntime,
    LedPartition,
    OnReply,
)
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

_MINUTE_MS = 60_000

Decide = Callable[[GroupCoordinator, Any], Decision]
"""Decides about a request, given the coordinator and the token to decide with."""


class GroupHost:
    """See the module."""

    def __init__(
        self,
        config: BrokerConfig,
        ports: AsyncPorts,
        metadata: MetadataHost,
        decompression: Decompression,
    ) -> None:
        self._node_id = config.node_id
        self._ports = ports
        self._metadata = metadata
        self._log_limit = LogLimit()
        self.memory = GroupMemory(config.get("fencepost.groups.max.bytes"))
        groups = group_config(config)
        kind = CoordinatorKind(
            lambda: GroupCoordinator(groups, self.memory),
            GroupCodec(),
            write_timeout_ms=config.get("offsets.commit.timeout.ms"),
            compression=config.get("offsets.topic.compression.codec"),
            decompress=decompression.inline_or_run,
            on_loaded=self._loaded,
            on_note=self._note,
        )
        self.runtime = CoordinatorRuntime(kind, ports, ports.scheduler.lane())
        self._closed = False
        metadata.on_image(self._image_changed)

    def start(self) -> None:
        """Nothing to do: coordinators begin when this node becomes their leader."""

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

    def _note(self, note: str) -> None:
        left_out = self._log_limit.admit()
        if left_out is not None:
            more = f" ({left_out} more lines about groups were left out)" if left_out else ""
            log.info("%s%s", cut(note), more)


def missing_from(image: ClusterImage) -> Callable[[str, Uuid], bool]:
    """Whether a topic of that name, and id if one is known, is not in the cluster."""

    def is_gone(name: str, topic_id: Uuid) -> bool:
        topic = image.topics_by_name.get(name)
        return topic is None or topic_id not in (Uuid.ZERO, topic.topic_id)

    return is_gone


def group_config(config: BrokerConfig) -> GroupConfig:
    """What the broker's configuration says about groups."""
    get = config.get
    return GroupConfig(
        min_session_timeout_ms=get("group.min.session.timeout.ms"),
        max_session_timeout_ms=get("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=get("group.initial.rebalance.delay.ms"),
        max_size=get("group.max.size"),
        max_bytes=get("fencepost.group.max.bytes"),
        offset_metadata_max_length=get("offset.metadata.max.bytes"),
        offsets_retention_ms=get("offsets.retention.minutes") * _MINUTE_MS,
        offsets_retention_check_ms=get("offsets.retention.check.interval.ms"),
    )
