"""Throttles of moves, as kafka-reassign-partitions sets and removes them (KIP-73).

A move is throttled by four configs: the rates, in bytes per second, of each broker that has a
replica or gets one, and for each topic the replicas that are read from and those that are copied
to. They stay until an operator has them removed, whatever becomes of the move.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from fencepost.client.metadata import TopicPartition

if TYPE_CHECKING:
    from fencepost.client.admin import Admin
    from fencepost.client.replicas import Reassignment

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
BROKER_KEYS: Final = (*RATES, LOG_DIRS_RATE)
TOPIC_KEYS: Final = (LEADERS, FOLLOWERS)


def set_throttles(
    admin: Admin,
    current: Mapping[TopicPartition, Sequence[int]],
    plan: Mapping[TopicPartition, Sequence[int]],
    moving: Mapping[TopicPartition, Reassignment],
    bytes_per_s: int,
) -> None:
    """Throttle the moves from where partitions are to where `plan` has them. ClientError.

    Moves that are under way and not in the plan go on being throttled.
    """
    from fencepost.client.admin import BROKER_RESOURCE, SET, TOPIC_RESOURCE, ConfigChange

    ways = moves(current, plan, moving)
    leaders: dict[str, list[str]] = defaultdict(list)
    followers: dict[str, list[str]] = defaultdict(list)
    for where, (sources, targets) in sorted(ways.items()):
        leaders[where.topic] += [f"{where.partition}:{id_}" for id_ in sorted(sources)]
        followers[where.topic] += [f"{where.partition}:{id_}" for id_ in sorted(targets)]
    for topic in leaders:
        named = ((LEADERS, leaders[topic]), (FOLLOWERS, followers[topic]))
        changes = [ConfigChange(key, ",".join(ids), SET) for key, ids in named if ids]
        if changes:
            admin.alter_configs(TOPIC_RESOURCE, topic, changes)
    rates = [ConfigChange(key, str(bytes_per_s), SET) for key in RATES]
    for id_ in sorted({id_ for sources, targets in ways.values() for id_ in sources | targets}):
        admin.alter_configs(BROKER_RESOURCE, str(id_), rates)


def moves(
    current: Mapping[TopicPartition, Sequence[int]],
    plan: Mapping[TopicPartition, Sequence[int]],
    moving: Mapping[TopicPartition, Reassignment],
) -> dict[TopicPartition, tuple[set[int], set[int]]]:
    """Of each partition the brokers that have it, and those that are to get it."""
    ways: dict[TopicPartition, tuple[set[int], set[int]]] = {}
    for where, one in moving.items():
        ways[where] = set(one.replicas) - set(one.adding), set(one.adding)
    for where, replicas in plan.items():
        sources = ways[where][0] if where in ways else set(current.get(where, ()))
        ways[where] = sources, set(replicas) - sources
    return ways


def clear_throttles(admin: Admin, brokers: Iterable[int], topics: Iterable[str]) -> list[str]:
    """Remove these throttles of topics, and of brokers if there are any; of whom, in words.

    Brokers come first: while a topic still has its throttle, it can be tried again. ClientError.
    """
    from fencepost.client.admin import BROKER_RESOURCE, TOPIC_RESOURCE

    throttled = [
        topic for topic in sorted(topics) if _set_keys(admin, TOPIC_RESOURCE, topic, TOPIC_KEYS)
    ]
    if not throttled:
        return []
    cleared = []
    for id_ in sorted(brokers):
        if _clear(admin, BROKER_RESOURCE, str(id_), BROKER_KEYS):
            cleared.append(f"broker {id_}")
    for topic in throttled:
        _clear(admin, TOPIC_RESOURCE, topic, TOPIC_KEYS)
        cleared.append(f"topic {topic}")
    return cleared


def _clear(admin: Admin, resource_type: int, name: str, keys: Sequence[str]) -> bool:
    """Remove those of the keys that are set; whether there were."""
    from fencepost.client.admin import DELETE, ConfigChange

    changes = [
        ConfigChange(key, None, DELETE) for key in _set_keys(admin, resource_type, name, keys)
    ]
    if changes:
        admin.alter_configs(resource_type, name, changes)
    return bool(changes)


def _set_keys(admin: Admin, resource_type: int, name: str, keys: Sequence[str]) -> list[str]:
    """Those of the keys that are set of the topic or broker itself."""
    from fencepost.client.admin import TOPIC_RESOURCE

    own = "topic" if resource_type == TOPIC_RESOURCE else "dynamic broker"
    entries = admin.describe_configs(resource_type, name, keys)
    return [one.name for one in entries if one.source == own]
