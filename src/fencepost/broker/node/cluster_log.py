"""Lines of the log for what the cluster decided: topics, leaders, in-sync sets, brokers, configs.

The active controller logs everything, so that its log is the history of the cluster; any other node
logs changes of the partitions that it has replicas of. What happened before this node had started
is not logged again, though it is read from the metadata log.

A change may concern a hundred thousand partitions: a few are named, the rest are counted. Configs
are named by their keys only, since a value may be a password.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from fencepost.broker.net.log_limit import LimitedLog
from fencepost.machines.image import (
    RECOVERED,
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    BrokerImage,
    ImageDelta,
    PartitionDelta,
    PartitionImage,
)

log = logging.getLogger(__name__)

NAMED_AT_ONCE: Final = 20
"""Topics or partitions that are named when one piece of metadata changes more of them."""


class ClusterLog:
    """Told of every image, it writes the lines."""

    def __init__(
        self,
        node_id: int,
        has_started: Callable[[], bool],
        is_active_controller: Callable[[], bool],
    ) -> None:
        self._node_id = node_id
        self._has_started = has_started
        self._is_active_controller = is_active_controller
        self._log = LimitedLog(log, "the cluster")

    def image_changed(self, delta: ImageDelta) -> None:
        """Tell what is different from the image before."""
        if delta.is_empty or not self._has_started():
            return
        if self._is_active_controller():
            self._tell(cluster_lines(delta))
            self._tell(partition_lines(delta.partitions))
        else:
            own = [one for one in delta.partitions if _has_replica(one, self._node_id)]
            self._tell(partition_lines(own))

    def _tell(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._log.info(line)


def cluster_lines(delta: ImageDelta) -> Iterator[str]:
    """What is different of topics, configs, brokers and features."""
    for topic in delta.created_topics[:NAMED_AT_ONCE]:
        replicas = len(topic.partitions[0].replicas) if topic.partitions else 0
        yield (
            f"created topic {topic.name} with id {topic.topic_id}: partitions"
            f" {len(topic.partitions)}, replication factor {replicas}"
        )
    yield from _more(len(delta.created_topics), "topics were created")
    for topic in delta.deleted_topics[:NAMED_AT_ONCE]:
        yield f"deleted topic {topic.name} with id {topic.topic_id}"
    yield from _more(len(delta.deleted_topics), "topics were deleted")
    for topic in delta.resized_topics[:NAMED_AT_ONCE]:
        yield f"topic {topic.name} has {len(topic.partitions)} partitions now"
    yield from _more(len(delta.resized_topics), "topics got more partitions")
    yield from _config_lines(delta)
    for broker_id, old, new in delta.brokers:
        line = _broker_line(broker_id, old, new)
        if line:
            yield line
    if delta.features_changed:
        yield finalized_line(delta.new.features)


def finalized_line(levels: Mapping[str, int]) -> str:
    """The levels at which a cluster runs."""
    told = ", ".join(f"{name}={level}" for name, level in sorted(levels.items()))
    return f"finalized features: {told}"


def _config_lines(delta: ImageDelta) -> Iterator[str]:
    created = {topic.name for topic in delta.created_topics}
    gone = {topic.name for topic in delta.deleted_topics} - created
    topics = [name for name in delta.changed_topic_configs if name not in gone]
    named = [(RESOURCE_TOPIC, name, f"topic {name}") for name in topics[:NAMED_AT_ONCE]]
    for name in delta.changed_broker_configs:
        named.append((RESOURCE_BROKER, name, f"broker {name}" if name else "all brokers"))
    for kind, name, shown in named:
        before = delta.old.configs_of(kind, name)
        after = delta.new.configs_of(kind, name)
        keys = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
        told = ", ".join(key if key in after else f"{key} (removed)" for key in keys)
        yield f"configs of {shown} changed: {told}"
    yield from _more(len(topics), "topics have other configs")


def _broker_line(broker_id: int, old: BrokerImage | None, new: BrokerImage | None) -> str:
    if new is None:
        return f"broker {broker_id} is unregistered"
    if old is None or old.epoch != new.epoch:
        return f"broker {broker_id} registered with broker epoch {new.epoch}"
    if new.fenced and not old.fenced:
        return f"broker {broker_id} is fenced"
    if old.fenced and not new.fenced:
        return f"broker {broker_id} is unfenced"
    if new.in_controlled_shutdown and not old.in_controlled_shutdown:
        return f"broker {broker_id} is in controlled shutdown"
    return ""


def partition_lines(changes: Iterable[PartitionDelta]) -> Iterator[str]:
    """What is different of partitions that were there before: leaders, replicas, in-sync sets.

    New partitions are not among them, since their topic is logged, and a cluster's first thousand
    would say nothing else.
    """
    told = [
        (change, change.old, change.new)
        for change in changes
        if change.old is not None
        and change.new is not None
        and _what_is_told(change.old) != _what_is_told(change.new)
    ]
    for change, old, new in told[:NAMED_AT_ONCE]:
        yield f"{change.topic}-{change.index}: {_partition_line(old, new)}"
    yield from _more(len(told), "partitions changed like this")


def _what_is_told(one: PartitionImage) -> tuple[object, ...]:
    """What `_partition_line` goes by: a hundred thousand are compared, and twenty lines made."""
    return (
        one.leader,
        one.leader_epoch,
        one.isr,
        one.eligible_leader_replicas,
        one.replicas,
        one.is_reassigning,
    )


def _partition_line(old: PartitionImage, new: PartitionImage) -> str:
    told: list[str] = []
    if old.leader != new.leader:
        how = "" if new.leader_recovery_state == RECOVERED else ", by an unclean election"
        told.append(f"leader {_leader(old)} -> {_leader(new)}{how}")
    if old.leader_epoch != new.leader_epoch:
        told.append(f"leader epoch {new.leader_epoch}")
    if old.isr != new.isr:
        told.append(f"ISR {_ids(old.isr)} -> {_ids(new.isr)}")
    if old.eligible_leader_replicas != new.eligible_leader_replicas:
        told.append(f"eligible leader replicas {_ids(new.eligible_leader_replicas)}")
    if old.replicas != new.replicas:
        told.append(f"replicas {_ids(old.replicas)} -> {_ids(new.replicas)}")
    if new.is_reassigning and not old.is_reassigning:
        told.append("reassignment begins")
    elif old.is_reassigning and not new.is_reassigning:
        told.append("reassignment ends")
    return ", ".join(told)


def _leader(partition: PartitionImage) -> str:
    return str(partition.leader) if partition.leader >= 0 else "none"


def _ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids)) or "none"


def _has_replica(change: PartitionDelta, broker_id: int) -> bool:
    return any(one is not None and broker_id in one.replicas for one in (change.old, change.new))


def _more(count: int, what: str) -> Iterator[str]:
    if count > NAMED_AT_ONCE:
        yield f"{count - NAMED_AT_ONCE} more {what}"
