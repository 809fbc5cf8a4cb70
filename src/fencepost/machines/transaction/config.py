"""What the broker's configuration says about transactions."""

from __future__ import annotations

from msgspec import Struct


class TransactionConfig(Struct, frozen=True):
    """The keys are in the comments; defaults are Kafka's where the key is."""

    max_timeout_ms: int = 900_000  # transaction.max.timeout.ms
    # transaction.abort.timed.out.transaction.cleanup.interval.ms
    timeout_check_ms: int = 10_000
    expiration_ms: int = 7 * 24 * 60 * 60_000  # transactional.id.expiration.ms
    # transaction.remove.expired.transaction.cleanup.interval.ms
    expiration_check_ms: int = 3_600_000
    two_phase_commit: bool = False  # transaction.two.phase.commit.enable
