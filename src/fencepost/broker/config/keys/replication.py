"""Replication between brokers, and leaders on preferred replicas."""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LONG,
    STRING,
    BrokerConfigDef,
    honoured,
    unused,
)
from fencepost.log.configdef import LONG_MAX, at_least, one_of

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

_LEADING = (
    honoured(
        "replica.lag.time.max.ms",
        LONG,
        30_000,
        None,
        "A follower that lags for so long leaves the in-sync replicas.",
    ),
    honoured(
        "replica.selector.class",
        STRING,
        None,
        one_of("", RACK_AWARE),
        "Class that chooses the replica a consumer reads from. There is the one that prefers those "
        "of the consumer's rack.",
    ),
)

_FOLLOWERS = (
    honoured(
        "num.replica.fetchers",
        INT,
        1,
        at_least(1),
        "Connections over which a broker fetches from each other broker.",
        CLUSTER_WIDE,
    ),
    honoured(
        "replica.fetch.backoff.ms",
        INT,
        1000,
        at_least(0),
        "How long a follower waits after an error.",
    ),
    honoured(
        "replica.fetch.max.bytes",
        INT,
        1_048_576,
        at_least(0),
        "Bytes a follower fetches of each partition.",
    ),
    honoured("replica.fetch.min.bytes", INT, 1, None, "Least bytes a follower waits for."),
    honoured(
        "replica.fetch.response.max.bytes",
        INT,
        10_485_760,
        at_least(0),
        "Most bytes of a follower's fetch.",
    ),
    honoured("replica.fetch.wait.max.ms", INT, 500, None, "Longest wait of a follower's fetch."),
    honoured(
        "replica.socket.timeout.ms", INT, 30_000, None, "How long a follower waits for an answer."
    ),
)

_BALANCING = (
    honoured(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        None,
        "Whether the active controller moves leadership back to preferred replicas.",
    ),
    honoured(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        at_least(1),
        "How often it does, for every partition whose preferred replica may lead and does not.",
    ),
)

_UNUSED = (
    unused(
        "num.replica.alter.log.dirs.threads",
        INT,
        None,
        None,
        "Threads that move replicas between directories.",
    ),
    unused("replica.socket.receive.buffer.bytes", INT, 65_536, None, "SO_RCVBUF of followers."),
)

_DYNAMIC_ONLY = (
    honoured(
        "follower.replication.throttled.rate",
        LONG,
        LONG_MAX,
        at_least(0),
        "Bytes per second of throttled replicas, at followers.",
        CLUSTER_WIDE,
    ),
    honoured(
        "leader.replication.throttled.rate",
        LONG,
        LONG_MAX,
        at_least(0),
        "Bytes per second of throttled replicas, at leaders.",
        CLUSTER_WIDE,
    ),
    honoured(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        LONG_MAX,
        at_least(0),
        "Bytes per second that replicas are copied with which move to another directory.",
        CLUSTER_WIDE,
    ),
)

KEYS: Final[tuple[BrokerConfigDef, ...]] = (
    *_LEADING,
    *_FOLLOWERS,
    *_BALANCING,
    *_UNUSED,
    *_DYNAMIC_ONLY,
)
"""See the module."""
