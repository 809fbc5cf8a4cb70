"""Transactions and their coordinator."""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    SHORT,
    BrokerConfigDef,
    unused,
)
from fencepost.log.configdef import at_least

KEYS: Final[tuple[BrokerConfigDef, ...]] = (
    unused(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        100,
        at_least(0),
        "Longest wait before AddPartitionsToTxn is tried again.",
    ),
    unused(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        at_least(1),
        "First wait before AddPartitionsToTxn is tried again.",
    ),
    unused(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        at_least(1),
        "How often transactions that timed out are aborted.",
    ),
    unused(
        "transaction.max.timeout.ms",
        INT,
        900_000,
        at_least(1),
        "Longest transaction timeout a producer may ask for.",
    ),
    unused(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        None,
        "Whether a partition is verified to be in the transaction.",
        CLUSTER_WIDE,
    ),
    unused(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        at_least(1),
        "How often expired transactional ids are removed.",
    ),
    unused(
        "transaction.state.log.load.buffer.size",
        INT,
        5_242_880,
        at_least(1),
        "Bytes read at once when the coordinator loads its partition.",
    ),
    unused("transaction.state.log.min.isr", INT, 2, at_least(1), "Of __transaction_state."),
    unused("transaction.state.log.num.partitions", INT, 50, at_least(1), "Of __transaction_state."),
    unused(
        "transaction.state.log.replication.factor", SHORT, 3, at_least(1), "Of __transaction_state."
    ),
    unused(
        "transaction.state.log.segment.bytes",
        INT,
        104_857_600,
        at_least(1),
        "Of __transaction_state.",
    ),
    unused(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        False,
        None,
        "Whether transactions may be prepared for two-phase commit.",
    ),
    unused(
        "transactional.id.expiration.ms",
        INT,
        604_800_000,
        at_least(1),
        "Transactional ids unused for so long are removed.",
    ),
)
"""See the module."""
