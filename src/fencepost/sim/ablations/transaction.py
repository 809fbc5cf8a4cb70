"""Transaction coordinators, and a producer, without one of their rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from fencepost.client.protocol.transaction_manager import TransactionManager
from fencepost.machines.transaction import records
from fencepost.machines.transaction.epochs import (
    NO_PRODUCER_ID,
    Claim,
    ended,
    fenced,
)
from fencepost.machines.transaction.model import Transaction, value_of
from fencepost.machines.transaction.shard import Shard
from fencepost.sim.ablations.ablation import (
    Ablation,
    always,
    changed,
    in_transactions,
    patched,
)
from fencepost.wire.records.transaction import TransactionLogValue, TransactionState

transactions = partial(changed, "transactions")


def _value_without_ids(transaction: Transaction, version: int) -> TransactionLogValue:
    identity = transaction.identity._replace(
        next_producer_id=NO_PRODUCER_ID, prev_producer_id=NO_PRODUCER_ID
    )
    return value_of(transaction._replace(identity=identity), version)


TABLE: Final[Mapping[str, Ablation]] = {
    # A transaction times out while its markers are on their way.
    "aborts-what-is-decided": in_transactions(
        "a transaction that was acknowledged as committed is aborted in some partitions",
        transactions(
            may_time_out=lambda _, transaction: (
                transaction.is_ending or transaction.state is TransactionState.ONGOING
            )
        ),
        "S72",
    ),
    # Who had the epoch before may add partitions.
    "adds-for-former-epochs": in_transactions(
        "a partition of the last transaction is part of the next one",
        transactions(may_add=lambda _, claim: claim in (Claim.CURRENT, Claim.RETRY)),
        "S60",
        "S64",
        "S78",
    ),
    # A producer that ends a transaction which is over hears that it is done, however it has ended.
    "agrees-with-any-end": in_transactions(
        "a producer believes that a transaction is committed which has timed out",
        transactions(has_ended_so=always(True)),
        "S58",
        "S72",
    ),
    # A coordinator that was replaced answers repetitions from memory.
    "answers-from-an-old-term": in_transactions(
        "a coordinator that was replaced unawares says that the next transaction is committed",
        patched((Shard, "write_again", always(None))),
        "S79",
        faults=("pause",),
        having={"transaction_version": 1},
    ),
    # A transaction begins, or ends another way, while the markers of the last are written.
    "begins-before-it-has-ended": in_transactions(
        "a transaction is decided twice", transactions(must_wait=always(False)), "S67"
    ),
    # The coordinator that aborts a transaction by itself begins two epochs.
    "bumps-twice": in_transactions(
        "the epochs of a producer run out at once (KAFKA-19367)",
        transactions(
            fence=lambda _, identity, server_version, fresh: ended(fenced(identity), fresh)
        ),
        "S63",
    ),
    # A producer goes on after a batch of which it does not know whether it is written.
    "commits-what-it-has-given-up": in_transactions(
        "a transaction is committed, and perhaps not all of it is written (KAFKA-14034)",
        patched((TransactionManager, "on_produce_failure", always(None))),
        "S77",
    ),
    # Who had the epoch before may end the transaction that is ongoing.
    "ends-for-former-epochs": in_transactions(
        "the end of the last transaction comes late, and ends the next one",
        transactions(may_end=lambda _, claim: claim in (Claim.CURRENT, Claim.RETRY)),
        "S58",
        "S64",
    ),
    # The record of an end does not have the producer's next id.
    "forgets-the-next-id": in_transactions(
        "a producer gets an id that the next coordinator does not know (KAFKA-20310)",
        patched((records, "value_of", _value_without_ids)),
        "S63",
        searched=False,
    ),
    # A transaction is over when its first marker is written.
    "over-at-the-first-marker": in_transactions(
        "a coordinator that fails then leaves partitions without an end",
        transactions(is_over=always(True)),
        "S61",
        faults=("kill", "pause", "partition"),
    ),
    # A coordinator that loads an end which is decided sends no markers.
    "sends-no-markers-again": in_transactions(
        "a transaction whose coordinator fails is never over",
        transactions(is_resent=always(False)),
        "S61",
        "S78",
    ),
}
