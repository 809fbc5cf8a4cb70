"""Transactions and their coordinator."""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LONG,
    SHORT,
    BrokerConfigDef,
    honoured,
    unused,
)
from fencepost.log.configdef import at_least
from fencepost.machines.transaction.memory import DEFAULT_BYTES_MAX

KEYS: Final[tuple[BrokerConfigDef, ...]] = (
    honoured(
        "fencepost.transactions.max.bytes",
        LONG,
        DEFAULT_BYTES_MAX,
        at_least(1),
        "Most memory for the transactional ids of this node and their partitions.",
    ),
    honoured(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        1_000,
        at_least(0),
        "How long a leader waits until the producer's last transaction is complete (KIP-890); then"
        " the producer gets CONCURRENT_TRANSACTIONS.",
    ),
    honoured(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        at_least(1),
        "How often it asks the coordinator meanwhile.",
    ),
    honoured(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        at_least(1),
        "How often transactions that timed out are aborted.",
    ),
    honoured(
        "transaction.max.timeout.ms",
        INT,
        900_000,
        at_least(1),
        "Longest transaction timeout a producer may ask for.",
    ),
    honoured(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        None,
        "Whether a partition is verified to be in the transaction.",
        CLUSTER_WIDE,
    ),
    honoured(
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
    honoured(
        "transaction.state.log.min.isr",
        INT,
        2,
        at_least(1),
        "Of __transaction_state; 1 by default on a node without a quorum.",
    ),
    honoured(
        "transaction.state.log.num.partitions",
        INT,
        50,
        at_least(1),
        "Partitions of __transaction_state, when it is created.",
    ),
    honoured(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        at_least(1),
        "Of __transaction_state; 1 by default on a node without a quorum.",
    ),
    honoured(
        "transaction.state.log.segment.bytes",
        INT,
        104_857_600,
        at_least(1),
        "Segment size of __transaction_state.",
    ),
    honoured(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        False,
        None,
        "Whether transactions may be prepared for two-phase commit.",
    ),
    honoured(
        "transactional.id.expiration.ms",
        INT,
        604_800_000,
        at_least(1),
        "Transactional ids unused for so long are removed.",
    ),
)
"""See the module."""
