"""Share groups (KIP-932) and their coordinator."""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    CLUSTER_WIDE,
    INT,
    LIST,
    SHORT,
    STRING,
    BrokerConfigDef,
    unused,
)
from fencepost.log.configdef import at_least, between, distinct

KEYS: Final[tuple[BrokerConfigDef, ...]] = (
    unused(
        "group.share.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        "Least time between two assignments of one group.",
        CLUSTER_WIDE,
    ),
    unused("group.share.assignors", LIST, ("simple",), distinct(), "Assignors of the broker."),
    unused(
        "group.share.delivery.count.limit",
        INT,
        5,
        between(2, 10),
        "How often a record is delivered at most.",
    ),
    unused(
        "group.share.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "Heartbeat interval told to members.",
    ),
    unused(
        "group.share.initialize.retry.interval.ms",
        INT,
        30_000,
        at_least(1),
        "How long until the initialization of a partition is tried again.",
        internal=True,
    ),
    unused(
        "group.share.max.assignment.interval.ms",
        INT,
        15_000,
        at_least(0),
        "Most a group may set as assignment interval.",
    ),
    unused(
        "group.share.max.delivery.count.limit",
        INT,
        10,
        between(5, 25),
        "Most a group may set as delivery count limit.",
    ),
    unused(
        "group.share.max.heartbeat.interval.ms",
        INT,
        15_000,
        at_least(1),
        "Most a group may set as heartbeat interval.",
    ),
    unused(
        "group.share.max.partition.max.record.locks",
        INT,
        4000,
        between(2000, 10_000),
        "Most a group may set as record locks of a partition.",
    ),
    unused(
        "group.share.max.record.lock.duration.ms",
        INT,
        60_000,
        between(30_000, 3_600_000),
        "Most a group may set as record lock duration.",
    ),
    unused(
        "group.share.max.session.timeout.ms",
        INT,
        60_000,
        at_least(1),
        "Most a group may set as session timeout.",
    ),
    unused(
        "group.share.max.share.sessions", INT, 2000, at_least(1), "Share sessions kept at once."
    ),
    unused("group.share.max.size", INT, 200, between(1, 1000), "Most members of a share group."),
    unused(
        "group.share.min.assignment.interval.ms",
        INT,
        0,
        at_least(0),
        "Least a group may set as assignment interval.",
    ),
    unused(
        "group.share.min.delivery.count.limit",
        INT,
        2,
        between(2, 5),
        "Least a group may set as delivery count limit.",
    ),
    unused(
        "group.share.min.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "Least a group may set as heartbeat interval.",
    ),
    unused(
        "group.share.min.partition.max.record.locks",
        INT,
        100,
        between(100, 2000),
        "Least a group may set as record locks of a partition.",
    ),
    unused(
        "group.share.min.record.lock.duration.ms",
        INT,
        15_000,
        between(1000, 30_000),
        "Least a group may set as record lock duration.",
    ),
    unused(
        "group.share.min.session.timeout.ms",
        INT,
        45_000,
        at_least(1),
        "Least a group may set as session timeout.",
    ),
    unused(
        "group.share.partition.max.record.locks",
        INT,
        2000,
        between(100, 10_000),
        "Records of a partition that may be in delivery at once.",
    ),
    unused(
        "group.share.persister.class.name",
        STRING,
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        None,
        "Class that stores the state of share groups.",
        internal=True,
    ),
    unused(
        "group.share.record.lock.duration.ms",
        INT,
        30_000,
        between(1000, 3_600_000),
        "How long a delivered record is locked for its consumer.",
    ),
    unused(
        "group.share.session.timeout.ms",
        INT,
        45_000,
        at_least(1),
        "Members silent for so long are removed.",
    ),
    unused(
        "share.coordinator.append.linger.ms",
        INT,
        -1,
        at_least(-1),
        "How long the coordinator gathers records before it writes them; -1: until it is idle.",
    ),
    unused(
        "share.coordinator.cached.buffer.max.bytes",
        INT,
        1_048_588,
        at_least(524_288),
        "Largest write buffer that is kept for the next write.",
        CLUSTER_WIDE,
    ),
    unused(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        INT,
        300_000,
        at_least(1),
        "How often a snapshot is written of a partition without changes.",
        internal=True,
    ),
    unused(
        "share.coordinator.load.buffer.size",
        INT,
        5_242_880,
        at_least(1),
        "Bytes read at once when the coordinator loads its partition.",
    ),
    unused(
        "share.coordinator.snapshot.update.records.per.snapshot",
        INT,
        500,
        between(0, 500),
        "Update records between two snapshots.",
    ),
    unused(
        "share.coordinator.state.topic.compression.codec", INT, 0, None, "Of __share_group_state."
    ),
    unused(
        "share.coordinator.state.topic.min.isr", SHORT, 2, at_least(1), "Of __share_group_state."
    ),
    unused(
        "share.coordinator.state.topic.num.partitions",
        INT,
        50,
        at_least(1),
        "Of __share_group_state.",
    ),
    unused(
        "share.coordinator.state.topic.prune.interval.ms",
        INT,
        300_000,
        at_least(1),
        "How often records that are no longer needed are removed from __share_group_state.",
        internal=True,
    ),
    unused(
        "share.coordinator.state.topic.replication.factor",
        SHORT,
        3,
        at_least(1),
        "Of __share_group_state.",
    ),
    unused(
        "share.coordinator.state.topic.segment.bytes",
        INT,
        104_857_600,
        at_least(1),
        "Of __share_group_state.",
    ),
    unused("share.coordinator.threads", INT, 1, at_least(1), "Threads of the share coordinator."),
    unused(
        "share.coordinator.write.timeout.ms",
        INT,
        5000,
        at_least(1),
        "How long a write to __share_group_state may take.",
    ),
)
"""See the module."""
