"""What the broker's configuration says about groups of all types, and about their offsets.

What a group may set for itself is in `settings`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from fencepost.machines.group.memory import DEFAULT_GROUP_BYTES_MAX

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a member that was never in a generation may wait in JoinGroup. It cannot heartbeat and
may be gone; while it counts, the rebalance cannot end without it."""

MAX_PENDING_MEMBERS: Final = 10_000
"""Member ids per group that were given out (KIP-394) and not yet used."""


class GroupConfig(Struct, frozen=True):
    """The keys are in the comments; defaults are Kafka's where the key is."""

    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    max_size: int = (1 << 31) - 1  # group.max.size
    max_bytes: int = DEFAULT_GROUP_BYTES_MAX  # fencepost.group.max.bytes
    offset_metadata_max_length: int = 4_096  # offset.metadata.max.bytes
    offsets_retention_ms: int = 7 * 24 * 60 * 60_000  # offsets.retention.minutes
    offsets_retention_check_ms: int = 600_000  # offsets.retention.check.interval.ms
    consumer_max_size: int = (1 << 31) - 1  # group.consumer.max.size
    consumer_assignors: tuple[str, ...] = ("uniform", "range")  # group.consumer.assignors
    consumer_regex_refresh_interval_ms: int = 600_000  # group.consumer.regex.refresh.interval.ms
    migration_policy: str = "bidirectional"  # group.consumer.migration.policy, in lower case
    share_max_size: int = 200  # group.share.max.size
    share_initialize_retry_interval_ms: int = 30_000  # group.share.initialize.retry.interval.ms
    streams_max_size: int = (1 << 31) - 1  # group.streams.max.size
    streams_assignors: tuple[str, ...] = ("sticky",)  # group.streams.assignors
