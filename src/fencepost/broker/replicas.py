"""The partitions this node hosts: their logs and machines, kept as the cluster image says.

Theory of operation
-------------------
`apply` is given the difference between two images and does what it says of this broker, in an order
that lets a topic be deleted and created again under one name: first deletions, then what is to be
led or followed, then configurations. A partition's log is opened or created when it first appears
in the image; after that only its machine hears of changes.

Who has to know which partitions this node leads (the group coordinator) registers a watcher.

A log that fails takes the whole directory with it: every partition is told, answers
KAFKA_STORAGE_ERROR from then on, and the node is told to stop. Nothing is retried: what is on the
disk is found out by recovery, at the next start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from fencepost.broker.cluster_view import INTERNAL_TOPICS
from fencepost.broker.config import BrokerConfig
from fencepost.broker.config_view import topic_log_config
from fencepost.broker.ports import AsyncPorts
from fencepost.broker.storage import Storage
from fencepost.log.config import LogConfig
from fencepost.log.configdef import ConfigError
from fencepost.log.errors import LogError
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.image import ClusterImage, ImageDelta, PartitionDelta
from fencepost.machines.partition import (
    BecomeFollower,
    BecomeLeader,
    BrokersChanged,
    ConfigChanged,
    Partition,
    PartitionConfig,
    RecoveryState,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class HostedPartition:
    """One partition on this node."""

    topic: str
    index: int
    topic_id: Uuid
    key: str
    """What the driver knows its machine by."""
    log: PartitionLog
    machine: Partition
    high_watermark: int = -1
    """The high watermark as of the last look, to notice when it moves."""


class ReplicaWatcher(Protocol):
    """Somebody who has to know which partitions this node leads."""

    def became_leader(self, hosted: HostedPartition) -> None:
        """This node leads the partition, from now on or in a new epoch."""
        ...

    def lost_leadership(self, hosted: HostedPartition) -> None:
        """This node leads the partition no longer, or has it no longer."""
        ...


class ReplicaManager:
    """All partitions of this node."""

    def __init__(self, config: BrokerConfig, ports: AsyncPorts, storage: Storage) -> None:
        self._config = config
        self._ports = ports
        self._storage = storage
        self._hosted: dict[str, dict[int, HostedPartition]] = {}
        self._names: dict[Uuid, str] = {}
        self._known: ClusterImage = ClusterImage()
        self.offline_reason: str | None = None
        """Why the log directory is offline; None while it is not."""
        self.watchers: list[ReplicaWatcher] = []
        self.on_moved: Callable[[HostedPartition], None] = _ignore
        """Called when a partition's high watermark has moved, or its role may have."""
        self.on_gone: Callable[[HostedPartition], None] = _ignore
        """Called when a partition is hosted here no longer."""
        self.on_offline: Callable[[str], None] = _ignore
        """Called once, with the reason, when the log directory is taken offline."""

    # -- looking up ------------------------------------------------------------------------

    def get(self, topic: str, index: int) -> HostedPartition | ErrorCode:
        """The partition, or why it cannot be had here: 56, 6 (known elsewhere) or 3 (unknown)."""
        partitions = self._hosted.get(topic)
        hosted = partitions.get(index) if partitions is not None else None
        if self.offline_reason is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if hosted is not None:
            return hosted
        known = self._known.topics_by_name.get(topic)
        if known is not None and 0 <= index < len(known.partitions):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def by_id(self, topic_id: Uuid, index: int) -> HostedPartition | ErrorCode:
        """Like `get` for a topic id; 100 for an id that no topic has."""
        name = self._names.get(topic_id)
        if name is None:
            known = self._known.topics_by_id.get(topic_id)
            if known is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            name = known.name
        return self.get(name, index)

    def all(self) -> Iterator[HostedPartition]:
        """Every partition hosted here."""
        for partitions in list(self._hosted.values()):
            yield from list(partitions.values())

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """The high watermark of every partition hosted here, for the checkpoint."""
        return {(h.topic, h.index): h.machine.high_watermark for h in self.all()}

    # -- following the image ---------------------------------------------------------------

    def apply(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Do what the change from one image to the next means for this broker."""
        self._known = image
        if self.offline_reason is not None:
            return
        try:
            self._apply(image, delta)
        except (OSError, LogError) as error:
            self.take_offline(f"a partition could not be set up: {error}")

    def _apply(self, image: ClusterImage, delta: ImageDelta) -> None:
        changes = delta.for_broker(self._config.node_id)
        for change in changes.to_delete:
            self._delete(change)
        eligible = eligible_brokers(image)
        for change in changes.to_lead:
            self._lead(image, change, eligible)
        for change in changes.to_follow:
            self._follow(image, change)
        self._reconfigure(image, delta)
        if delta.brokers:
            for hosted in self.all():
                self._ports.driver.feed(hosted.key, BrokersChanged(eligible))

    def _lead(
        self, image: ClusterImage, change: PartitionDelta, eligible: Mapping[int, int]
    ) -> None:
        new = change.new
        assert new is not None, "what is led exists"
        hosted = self._ensure(image, change)
        self._ports.driver.feed(
            hosted.key,
            BecomeLeader(
                leader_epoch=new.leader_epoch,
                partition_epoch=new.partition_epoch,
                replicas=new.replicas,
                isr=new.isr,
                eligible=eligible,
                recovery_state=RecoveryState(new.leader_recovery_state),
            ),
        )
        self.on_moved(hosted)
        if change.is_new_leader_epoch:
            for watcher in self.watchers:
                watcher.became_leader(hosted)

    def _follow(self, image: ClusterImage, change: PartitionDelta) -> None:
        new = change.new
        assert new is not None, "what is followed exists"
        hosted = self._ensure(image, change)
        led = hosted.machine.is_leader
        self._ports.driver.feed(
            hosted.key,
            BecomeFollower(
                leader_id=new.leader,
                leader_epoch=new.leader_epoch,
                partition_epoch=new.partition_epoch,
                replicas=new.replicas,
                isr=new.isr,
            ),
        )
        if led:
            for watcher in self.watchers:
                watcher.lost_leadership(hosted)
        self.on_moved(hosted)

    def _ensure(self, image: ClusterImage, change: PartitionDelta) -> HostedPartition:
        """The hosted partition; its log is opened or created if it is not there yet."""
        present = self._hosted.get(change.topic, {}).get(change.index)
        if present is not None:
            return present
        config = self._config_of(image, change.topic)
        partition_log = self._storage.open_partition(
            change.topic, change.index, change.topic_id, config
        )
        machine = Partition(
            self._config.node_id,
            partition_log,
            high_watermark=self._storage.high_watermark_of(change.topic, change.index),
            durable_offset=partition_log.recovery_point,
            config=partition_config(config),
        )
        key = f"{change.topic}-{change.index}"
        hosted = HostedPartition(
            change.topic, change.index, change.topic_id, key, partition_log, machine
        )
        is_first = not self._hosted.get(change.topic)
        if config.is_compacted and is_first and change.topic not in INTERNAL_TOPICS:
            log.warning(
                "%s has cleanup.policy=compact: there is no compaction, so all records stay",
                change.topic,
            )
        self._hosted.setdefault(change.topic, {})[change.index] = hosted
        self._names[change.topic_id] = change.topic
        self._ports.host(key, machine, partition_log, lambda _: self._stepped(hosted))
        if partition_log.recovery_point < partition_log.end_offset:
            # What a crash left in the page cache counts once it is known to be on the disk.
            self._ports.request_flush(key)
        return hosted

    def _delete(self, change: PartitionDelta) -> None:
        hosted = self._hosted.get(change.topic, {}).pop(change.index, None)
        if not self._hosted.get(change.topic):
            self._hosted.pop(change.topic, None)
            self._names.pop(change.topic_id, None)
        if hosted is None:
            return
        old = change.old
        assert old is not None, "what is deleted was there"
        # The machine hears of it first, so that everybody who waits for it is answered.
        self._ports.driver.feed(
            hosted.key,
            BecomeFollower(
                leader_id=-1,
                leader_epoch=old.leader_epoch + 1,
                partition_epoch=old.partition_epoch + 1,
                replicas=old.replicas,
                isr=old.isr,
            ),
        )
        for watcher in self.watchers:
            watcher.lost_leadership(hosted)
        self.on_gone(hosted)
        self._ports.unhost(hosted.key)
        self._storage.delete_partition(hosted.log)

    def _reconfigure(self, image: ClusterImage, delta: ImageDelta) -> None:
        topics = set(delta.changed_topic_configs)
        if delta.changed_broker_configs:
            topics.update(self._hosted)
        for topic in topics:
            partitions = self._hosted.get(topic)
            if not partitions:
                continue
            config = self._config_of(image, topic)
            for hosted in partitions.values():
                hosted.log.config = config
                self._ports.driver.feed(hosted.key, ConfigChanged(partition_config(config)))

    def _config_of(self, image: ClusterImage, topic: str) -> LogConfig:
        """The configs in force for the topic; this broker's own if they do not go together.

        The controller checks a topic's configs, but not against those of every broker.
        """
        try:
            return topic_log_config(self._config, image, topic)
        except ConfigError as error:
            log.error("the configs of %s are not applied: %s", topic, error)
            return self._config.log_config({})

    # -- what machines and disks report ------------------------------------------------------

    def _stepped(self, hosted: HostedPartition) -> None:
        high_watermark = hosted.machine.high_watermark
        if high_watermark != hosted.high_watermark:
            hosted.high_watermark = high_watermark
            self.on_moved(hosted)

    def take_offline(self, reason: str) -> None:
        """The log directory has failed: every partition is told, and answers 56 from now on."""
        if self.offline_reason is not None:
            return
        self.offline_reason = reason
        log.critical("the log directory is offline: %s", reason)
        for hosted in self.all():
            self._ports.driver.disk_failed(hosted.key, reason)
            self.on_moved(hosted)
        self.on_offline(reason)


def eligible_brokers(image: ClusterImage) -> dict[int, int]:
    """Brokers that may enter an in-sync set, with their epochs (KIP-841)."""
    return {
        broker_id: broker.epoch
        for broker_id, broker in image.brokers.items()
        if not broker.fenced and not broker.in_controlled_shutdown
    }


def partition_config(config: LogConfig) -> PartitionConfig:
    """What a partition machine has to know of its topic's configs."""
    return PartitionConfig(
        min_insync_replicas=config.min_insync_replicas,
        log_append_time=config.is_log_append_time,
    )


def _ignore(_: object) -> None:
    """Nobody wants to know."""
