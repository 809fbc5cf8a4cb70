"""The group coordinator: offsets, classic groups, consumer groups (KIP-848) and streams groups."""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    SHORT,
    STRING,
    BrokerConfigDef,
    default_only,
    honoured,
    unused,
)
from fencepost.log.configdef import INT_MAX, at_least, between, distinct, each_of, one_of_any_case
from fencepost.machines.group.memory import DEFAULT_GROUP_BYTES_MAX, DEFAULT_NODE_BYTES_MAX

_GROUPS = (
    honoured("offsets.topic.num.partitions", INT, 50, at_least(1), "Of __consumer_offsets."),
    honoured(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        at_least(1),
        "Of __consumer_offsets; 1 by default on a node without a quorum.",
    ),
    honoured(
        "offsets.topic.segment.bytes", INT, 104_857_600, at_least(1), "Of __consumer_offsets."
    ),
    honoured("offsets.topic.compression.codec", INT, 0, between(0, 4), "Of __consumer_offsets."),
    honoured(
        "offsets.retention.minutes",
        INT,
        10_080,
        at_least(1),
        "How long offsets of a group without members are kept.",
    ),
    honoured(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        at_least(1),
        "How often expired offsets are looked for.",
    ),
    honoured("offset.metadata.max.bytes", INT, 4096, at_least(0), "Longest note on an offset."),
    honoured("offsets.commit.timeout.ms", INT, 5000, at_least(1), "How long a commit may take."),
    honoured("group.min.session.timeout.ms", INT, 6000, at_least(0), "Least session timeout."),
    honoured("group.max.session.timeout.ms", INT, 1_800_000, at_least(0), "Most session timeout."),
    honoured(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        at_least(0),
        "How long the first rebalance of a group waits for more members.",
    ),
    honoured("group.max.size", INT, INT_MAX, at_least(1), "Most members of a classic group."),
    honoured(
        "fencepost.group.max.bytes",
        LONG,
        DEFAULT_GROUP_BYTES_MAX,
        at_least(1),
        "Most memory for what the members of one classic group say: ids, metadata, assignments.",
    ),
    honoured(
        "fencepost.groups.max.bytes",
        LONG,
        DEFAULT_NODE_BYTES_MAX,
        at_least(1),
        "The same for all groups of this node; the last quarter is for members of at most 16 KiB.",
    ),
)

_CONSUMER = (
    honoured(
        "group.consumer.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        "Least time between two assignments of one group.",
        CLUSTER_WIDE,
    ),
    honoured(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        each_of("uniform", "range", may_be_empty=False),
        "Assignors of the broker, the first being the default. Classes cannot be loaded here.",
    ),
    unused(
        "group.consumer.assignor.offload.enable",
        BOOLEAN,
        True,
        None,
        "Whether assignments are computed on threads.",
        CLUSTER_WIDE,
        internal=True,
    ),
    honoured(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "Heartbeat interval that members get.",
    ),
    honoured(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15_000,
        at_least(0),
        "Most a group may set as assignment interval.",
    ),
    honoured(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15_000,
        at_least(1),
        "Most a group may set as heartbeat interval.",
    ),
    honoured(
        "group.consumer.max.session.timeout.ms",
        INT,
        60_000,
        at_least(1),
        "Most a group may set as session timeout.",
    ),
    honoured(
        "group.consumer.max.size", INT, INT_MAX, at_least(1), "Most members of a consumer group."
    ),
    honoured(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        one_of_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
        "Which way groups may change between the classic and the consumer protocol.",
    ),
    honoured(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        at_least(0),
        "Least a group may set as assignment interval.",
    ),
    honoured(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "Least a group may set as heartbeat interval.",
    ),
    honoured(
        "group.consumer.min.session.timeout.ms",
        INT,
        45_000,
        at_least(1),
        "Least a group may set as session timeout.",
    ),
    honoured(
        "group.consumer.regex.refresh.interval.ms",
        INT,
        600_000,
        at_least(10_000),
        "How often regular expressions of subscriptions are resolved again.",
        internal=True,
    ),
    honoured(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        at_least(1),
        "Members silent for so long are removed.",
    ),
    unused(
        "group.coordinator.append.linger.ms",
        INT,
        -1,
        at_least(-1),
        "How long a coordinator gathers records before it writes them; -1: until it is idle.",
    ),
    unused(
        "group.coordinator.background.threads",
        INT,
        2,
        at_least(1),
        "Threads that compute assignments.",
    ),
    unused(
        "group.coordinator.cached.buffer.max.bytes",
        INT,
        1_048_588,
        at_least(524_288),
        "Largest write buffer that a coordinator keeps for the next write.",
        CLUSTER_WIDE,
    ),
    honoured(
        "group.coordinator.rebalance.protocols",
        LIST,
        ("classic", "consumer", "streams"),
        each_of("consumer", "classic", "share", "streams", may_be_empty=False),
        "Group protocols that may be used. Classic groups and share groups are there without it.",
    ),
    unused("group.coordinator.threads", INT, 4, at_least(1), "Threads of the group coordinator."),
    unused(
        "offsets.load.buffer.size",
        INT,
        5_242_880,
        at_least(1),
        "Bytes read at once when a coordinator loads its partition.",
    ),
)

_STREAMS = (
    unused(
        "group.streams.acceptable.recovery.lag",
        LONG,
        10_000,
        at_least(0),
        "Offsets that a standby may be behind and still count as caught up.",
        internal=True,
    ),
    honoured(
        "group.streams.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        "Least time between two assignments of one group.",
        CLUSTER_WIDE,
    ),
    unused(
        "group.streams.assignor.offload.enable",
        BOOLEAN,
        True,
        None,
        "Whether assignments are computed on threads.",
        CLUSTER_WIDE,
        internal=True,
    ),
    honoured(
        "group.streams.assignors",
        LIST,
        ("sticky",),
        each_of("sticky", may_be_empty=False),
        "Task assignors of the broker, the first being the default. Classes cannot be loaded here.",
    ),
    honoured(
        "group.streams.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "Heartbeat interval that members get.",
    ),
    honoured(
        "group.streams.initial.rebalance.delay.ms",
        INT,
        3000,
        at_least(0),
        "How long the first rebalance of a group waits for more members.",
    ),
    honoured(
        "group.streams.max.assignment.interval.ms",
        INT,
        15_000,
        at_least(0),
        "Most a group may set as assignment interval.",
    ),
    honoured(
        "group.streams.max.heartbeat.interval.ms",
        INT,
        15_000,
        at_least(1),
        "Most a group may set as heartbeat interval.",
    ),
    honoured(
        "group.streams.max.session.timeout.ms",
        INT,
        60_000,
        at_least(1),
        "Most a group may set as session timeout.",
    ),
    honoured(
        "group.streams.max.size", INT, INT_MAX, at_least(1), "Most members of a streams group."
    ),
    honoured(
        "group.streams.max.standby.replicas",
        INT,
        2,
        at_least(0),
        "Most standby replicas a group may set.",
    ),
    honoured(
        "group.streams.max.warmup.replicas",
        INT,
        20,
        at_least(0),
        "Most warm-up replicas a group may set.",
        internal=True,
    ),
    honoured(
        "group.streams.min.assignment.interval.ms",
        INT,
        0,
        at_least(0),
        "Least a group may set as assignment interval.",
    ),
    honoured(
        "group.streams.min.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "Least a group may set as heartbeat interval.",
    ),
    honoured(
        "group.streams.min.session.timeout.ms",
        INT,
        45_000,
        at_least(1),
        "Least a group may set as session timeout.",
    ),
    honoured(
        "group.streams.min.task.offset.interval.ms",
        INT,
        15_000,
        at_least(1),
        "Least a group may set as task offset interval.",
        internal=True,
    ),
    honoured(
        "group.streams.num.standby.replicas", INT, 0, at_least(0), "Standby replicas of each task."
    ),
    unused(
        "group.streams.num.warmup.replicas",
        INT,
        2,
        at_least(0),
        "Warm-up replicas of each group at once; there are none, as in Kafka.",
        internal=True,
    ),
    honoured(
        "group.streams.rack.aware.assignment.tags",
        LIST,
        (),
        distinct(may_be_empty=True),
        "Client tags by which standby replicas are spread.",
    ),
    honoured(
        "group.streams.session.timeout.ms",
        INT,
        45_000,
        at_least(1),
        "Members silent for so long are removed.",
    ),
    honoured(
        "group.streams.task.offset.interval.ms",
        INT,
        60_000,
        at_least(1),
        "How often members report the offsets of their tasks.",
        internal=True,
    ),
    default_only(
        "group.streams.topology.description.plugin.class",
        CLASS,
        None,
        "classes cannot be loaded here",
    ),
)

KEYS: Final[tuple[BrokerConfigDef, ...]] = (*_GROUPS, *_CONSUMER, *_STREAMS)
"""See the module."""
