"""What a transaction coordinator has its node do, once the decision behind it is committed."""

from __future__ import annotations

from typing import NamedTuple

from fencepost.machines.transaction.model import TopicPartition, Transaction


class SendMarkers(NamedTuple):
    """Have these markers written; `decide_marked` takes what became of it."""

    transactions: tuple[Transaction, ...]
    """As they were decided: PREPARE_COMMIT or PREPARE_ABORT, with the epoch of the markers. Of one
    coordinator."""


class AbortTimedOut(NamedTuple):
    """The transaction of this producer has lasted too long: decide `decide_abort`."""

    transactional_id: str
    producer_id: int
    epoch: int


class CompleteWith(NamedTuple):
    """The end needs a fresh producer id to be complete: decide `decide_marked` with one."""

    sent: Transaction
    written: frozenset[TopicPartition]
