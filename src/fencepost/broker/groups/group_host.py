"""The group coordinators of this node: a shard for each partition of `__consumer_offsets` it leads.

A group belongs to the partition that its id hashes to, and to whoever leads that. Requests come
through `submit`, which finds the shard; what cannot be answered here is answered with the error
that sends the client where it can: NOT_COORDINATOR (ask who is), COORDINATOR_LOAD_IN_PROGRESS (wait
here).

The topic is created when the first client asks for a coordinator (`find_coordinator`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fencepost.broker.cluster.topic_creation import OFFSETS_TOPIC
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.groups.group_shard import Decide, GroupShard, OnReply, Settings
from fencepost.broker.net.piecework import Piecework
from fencepost.machines.group import GroupConfig, GroupMemory, partition_for
from fencepost.machines.image import ClusterImage, ImageDelta
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

if TYPE_CHECKING:
    from fencepost.broker.node.node import Node

log = logging.getLogger(__name__)

_MINUTE_MS = 60_000


class GroupHost:
    """See the module."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._settings = settings_of(node.config)
        self._shards: dict[int, GroupShard] = {}
        self._loading = Piecework(node.ports.loop)
        self._closed = False
        node.metadata.on_image(self._image_changed)

    def start(self) -> None:
        """Nothing to do: shards begin when this node becomes their leader."""

    def close(self) -> None:
        """Stop all shards; whoever waits is told to look for another coordinator."""
        self._closed = True
        shards, self._shards = self._shards, {}
        for shard in shards.values():
            shard.close()

    # -- for handlers ----------------------------------------------------------------------

    def submit(self, group_id: str, decide: Decide, on_reply: OnReply) -> None:
        """Have the group's coordinator decide; see `GroupShard.submit`."""
        shard = self.shard_of(group_id)
        if isinstance(shard, GroupShard):
            shard.submit(decide, on_reply)
        else:
            on_reply(shard, None)

    def shard_of(self, group_id: str) -> GroupShard | ErrorCode:
        """The shard the group belongs to, or why it is not here."""
        topic = self._node.image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is None or self._closed:
            return ErrorCode.NOT_COORDINATOR
        index = partition_for(group_id, len(topic.partitions))
        shard = self._shards.get(index)
        if shard is not None:
            return shard
        if topic.partitions[index].leader == self._node.config.node_id:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # its log is still being opened
        return ErrorCode.NOT_COORDINATOR

    def partition_of(self, group_id: str) -> int | None:
        """The group's partition of `__consumer_offsets`; None while there is no such topic."""
        topic = self._node.image.topics_by_name.get(OFFSETS_TOPIC)
        return None if topic is None else partition_for(group_id, len(topic.partitions))

    def shards(self) -> Iterator[GroupShard]:
        """The shards of this node, by partition."""
        for _, shard in sorted(self._shards.items()):
            yield shard

    # -- leadership ------------------------------------------------------------------------

    def became_leader(self, hosted: HostedPartition) -> None:
        """This node leads the partition, from now on or in a new epoch: load it."""
        if hosted.topic != OFFSETS_TOPIC or self._closed:
            return
        self.lost_leadership(hosted)
        shard = GroupShard(
            self._node.ports,
            hosted,
            self._settings,
            self._loading,
            self._node.decompression,
            self._forget_missing_topics,
        )
        self._shards[hosted.index] = shard
        shard.load()

    def lost_leadership(self, hosted: HostedPartition) -> None:
        """This node leads the partition no longer."""
        if hosted.topic == OFFSETS_TOPIC:
            shard = self._shards.pop(hosted.index, None)
            if shard is not None:
                shard.close()

    # -- topics that are deleted -------------------------------------------------------------

    def _image_changed(self, image: ClusterImage, delta: ImageDelta) -> None:
        if not delta.deleted_topics:
            return
        ids = {topic.name: topic.topic_id for topic in delta.deleted_topics}

        def is_gone(name: str, topic_id: Uuid) -> bool:
            return name in ids and topic_id in (Uuid.ZERO, ids[name])

        for shard in self.shards():
            shard.tell(lambda coordinator: coordinator.decide_topics_deleted(is_gone))

    def _forget_missing_topics(self, shard: GroupShard) -> None:
        """A shard was loaded: topics may have been deleted while nobody coordinated its groups."""
        is_gone = missing_from(self._node.image)
        shard.tell(lambda coordinator: coordinator.decide_topics_deleted(is_gone))


def missing_from(image: ClusterImage) -> Callable[[str, Uuid], bool]:
    """Whether a topic of that name, and id if one is known, is not in the cluster."""

    def is_gone(name: str, topic_id: Uuid) -> bool:
        topic = image.topics_by_name.get(name)
        return topic is None or topic_id not in (Uuid.ZERO, topic.topic_id)

    return is_gone


def settings_of(config: BrokerConfig) -> Settings:
    """The settings of groups in the broker's configuration."""
    get = config.get
    groups = GroupConfig(
        min_session_timeout_ms=get("group.min.session.timeout.ms"),
        max_session_timeout_ms=get("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=get("group.initial.rebalance.delay.ms"),
        max_size=get("group.max.size"),
        max_bytes=get("fencepost.group.max.bytes"),
        offset_metadata_max_length=get("offset.metadata.max.bytes"),
        offsets_retention_ms=get("offsets.retention.minutes") * _MINUTE_MS,
        offsets_retention_check_ms=get("offsets.retention.check.interval.ms"),
    )
    return Settings(
        groups,
        GroupMemory(get("fencepost.groups.max.bytes")),
        compression=get("offsets.topic.compression.codec"),
        write_timeout_ms=get("offsets.commit.timeout.ms"),
    )
