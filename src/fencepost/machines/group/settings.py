"""What a group of each type may be told by its own configs, and by the broker's for all groups.

A group's config `consumer.session.timeout.ms` (a resource of type GROUP, which need not exist as a
group) goes before the broker's `group.consumer.session.timeout.ms`. A stored value that is out of
the broker's bounds counts as the nearest bound when it is read (KAFKA-20162).

The keys are in the comments, without the type that they begin with; defaults are Kafka 4.4's.
"""

from __future__ import annotations

from msgspec import Struct


class ConsumerSettings(Struct, frozen=True):
    """Of a consumer group (KIP-848): `consumer.`."""

    session_timeout_ms: int = 45_000  # session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # assignment.interval.ms (KIP-1263)


class ShareSettings(Struct, frozen=True):
    """Of a share group (KIP-932): `share.`, and `errors.deadletterqueue.` (KIP-1191)."""

    session_timeout_ms: int = 45_000  # session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # assignment.interval.ms
    record_lock_duration_ms: int = 30_000  # record.lock.duration.ms
    delivery_count_limit: int = 5  # delivery.count.limit
    partition_max_record_locks: int = 2_000  # partition.max.record.locks
    auto_offset_reset: str = "latest"  # auto.offset.reset
    isolation_level: str = "read_uncommitted"  # isolation.level
    renew_acknowledge_enable: bool = True  # renew.acknowledge.enable
    dead_letter_topic: str = ""  # errors.deadletterqueue.topic.name
    dead_letter_copy_record_enable: bool = False  # errors.deadletterqueue.copy.record.enable


class StreamsSettings(Struct, frozen=True):
    """Of a streams group (KIP-1071): `streams.`."""

    session_timeout_ms: int = 45_000  # session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # assignment.interval.ms
    num_standby_replicas: int = 0  # num.standby.replicas
    initial_rebalance_delay_ms: int = 3_000  # initial.rebalance.delay.ms
    rack_aware_assignment_tags: tuple[str, ...] = ()  # rack.aware.assignment.tags
    assignor_name: str | None = None  # assignor.name; None: the broker's first
    task_offset_interval_ms: int = 60_000  # task.offset.interval.ms
    acceptable_recovery_lag: int = 10_000  # acceptable.recovery.lag
