"""A transactional id as a value: its producer, and its latest transaction.

    EMPTY ─────> ONGOING ─────> PREPARE_COMMIT ─────> COMPLETE_COMMIT
      │  add      │  ^  end        (markers are           │
      │           │  │              being written)        │
      │           │  └──────── add ───────────────────────┤
      │           └───> PREPARE_ABORT ──────> COMPLETE_ABORT
      └────────────────────^  (version 2 aborts what was never begun)

InitProducerId takes every state on the right and EMPTY to EMPTY. A value is never changed: a
decision writes the next one, as a record with everything in it, and applying the record puts it in
the place of the last.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fencepost.machines.transaction.epochs import NO_PRODUCER_ID, Identity
from fencepost.machines.transaction.partition_set import (
    NO_PARTITIONS,
    PartitionSet,
    TopicPartition,
    grouped,
)
from fencepost.wire.records.transaction import TransactionLogValue, TransactionState

NO_TIME: Final = -1
NEVER_MS: Final = (1 << 31) - 1
"""The timeout of transactions that another coordinator decides about (KIP-939): none."""

STATE_NAMES: Final = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
    TransactionState.DEAD: "Dead",
    TransactionState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
"""As DescribeTransactions and ListTransactions call them."""

ENDING: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""The end is decided, and markers are on their way."""

IDLE: Final = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }
)
"""There is no transaction."""


WITH_IDS_FROM: Final = 1
"""The version of a record's value that has the ids before and behind, and the client's version."""


class Transaction(NamedTuple):
    """One transactional id. Times are milliseconds since 1970."""

    transactional_id: str
    identity: Identity
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = NO_PARTITIONS
    """That take part; while the transaction ends, those without a marker."""
    start_ms: int = NO_TIME
    last_update_ms: int = NO_TIME
    client_version: int = 0
    """The transaction version that its producer follows: 2 is a new epoch with every end."""
    next_producer_epoch: int = -1
    """Of KIP-939, which nothing here sets; kept as it was read."""

    @property
    def is_ending(self) -> bool:
        """Whether the end is decided, and not yet everywhere known."""
        return self.state in ENDING

    @property
    def is_committed(self) -> bool:
        """Whether the end that is decided, or was last, is a commit."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    @property
    def can_time_out(self) -> bool:
        """Whether the coordinator may abort it; two-phase commits wait for their coordinator."""
        return self.timeout_ms != NEVER_MS


def value_of(transaction: Transaction, version: int) -> TransactionLogValue:
    """The record's value; v0 has no room for the ids before and behind."""
    identity = transaction.identity
    value = TransactionLogValue(
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=(
            None
            if transaction.state is TransactionState.EMPTY
            else list(grouped(transaction.partitions).values())
        ),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    if version >= WITH_IDS_FROM:
        value.previous_producer_id = identity.prev_producer_id
        value.next_producer_id = identity.next_producer_id
        value.next_producer_epoch = transaction.next_producer_epoch
        value.client_transaction_version = transaction.client_version
    return value


def from_value(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """What a record says. ValueError for a state that there is not."""
    return Transaction(
        transactional_id,
        Identity(
            value.producer_id,
            value.producer_epoch,
            prev_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
        ),
        value.transaction_timeout_ms,
        TransactionState(value.transaction_status),
        PartitionSet.from_record(value.transaction_partitions or ()),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version,
        value.next_producer_epoch,
    )


__all__ = [
    "ENDING",
    "IDLE",
    "NEVER_MS",
    "NO_PRODUCER_ID",
    "NO_TIME",
    "STATE_NAMES",
    "TopicPartition",
    "Transaction",
    "TransactionState",
    "from_value",
    "value_of",
]
