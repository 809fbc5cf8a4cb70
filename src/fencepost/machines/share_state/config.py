"""What the broker's configuration says about the share coordinator."""

from __future__ import annotations

from msgspec import Struct


class ShareStateConfig(Struct, frozen=True):
    """The keys are in the comments; defaults are Kafka's."""

    updates_per_snapshot: int = 500
    # share.coordinator.snapshot.update.records.per.snapshot
    cold_snapshot_interval_ms: int = 300_000
    # share.coordinator.cold.partition.snapshot.interval.ms
    prune_interval_ms: int = 300_000  # share.coordinator.state.topic.prune.interval.ms
