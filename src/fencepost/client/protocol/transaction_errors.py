"""What a transactional producer does about every error: one table, and the rows that differ.

As in Kafka's Java producer, an error means one of six things (`Reaction`). `COMMON` has the rows
that are the same wherever they come from, `DIFFERING` those of single requests, and `OTHERWISE`
what is done about an error that neither names and that is not retriable.

Where this differs from the Java producer: INVALID_TXN_STATE from Produce is taken as abortable,
because brokers also say it for TRANSACTION_ABORTABLE to requests up to version 10, and because
EndTxn tells whether the transaction is beyond help; REBALANCE_IN_PROGRESS and STALE_MEMBER_EPOCH
from TxnOffsetCommit are abortable like every other sign that the group has moved on.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from fencepost.wire.errors import ErrorCode as E, is_retriable


class Reaction(Enum):
    """What an answer means to the producer."""

    DONE = auto()
    """It was carried out."""
    AGAIN = auto()
    """The same request is sent again after a pause."""
    SOON = auto()
    """The same after a short pause: the last transaction is still being completed."""
    FIND_COORDINATOR = auto()
    """The same after asking who the coordinator is now."""
    ABORT = auto()
    """This transaction can only be aborted; then the producer goes on."""
    FENCED = auto()
    """Another producer has the transactional id: this one is of no use any more."""
    FATAL = auto()
    """This producer is of no use any more."""


class Kind(Enum):
    """Where an answer comes from. EndTxn is two: an abort that is refused leaves nothing to do."""

    FIND_COORDINATOR = "FindCoordinator"
    INIT_PRODUCER_ID = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    OFFSET_COMMIT = "TxnOffsetCommit"
    COMMIT = "EndTxn(commit)"
    ABORT = "EndTxn(abort)"
    PRODUCE = "Produce"


COMMON: Final[dict[int, Reaction]] = {
    E.NONE: Reaction.DONE,
    E.COORDINATOR_LOAD_IN_PROGRESS: Reaction.AGAIN,
    E.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    E.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    E.CONCURRENT_TRANSACTIONS: Reaction.SOON,
    E.INVALID_PRODUCER_EPOCH: Reaction.FENCED,  # what brokers say to low versions
    E.PRODUCER_FENCED: Reaction.FENCED,
    E.INVALID_TXN_STATE: Reaction.FATAL,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Reaction.FATAL,
    E.CLUSTER_AUTHORIZATION_FAILED: Reaction.FATAL,
    E.UNSUPPORTED_VERSION: Reaction.FATAL,
    E.TRANSACTION_ABORTABLE: Reaction.ABORT,
}

DIFFERING: Final[dict[Kind, dict[int, Reaction]]] = {
    Kind.FIND_COORDINATOR: {
        E.COORDINATOR_NOT_AVAILABLE: Reaction.AGAIN,
        E.GROUP_AUTHORIZATION_FAILED: Reaction.ABORT,
    },
    Kind.INIT_PRODUCER_ID: {},
    Kind.ADD_PARTITIONS: {
        E.TOPIC_AUTHORIZATION_FAILED: Reaction.ABORT,
        E.OPERATION_NOT_ATTEMPTED: Reaction.ABORT,
        E.UNKNOWN_PRODUCER_ID: Reaction.ABORT,
        E.INVALID_PRODUCER_ID_MAPPING: Reaction.ABORT,
    },
    Kind.ADD_OFFSETS: {
        E.GROUP_AUTHORIZATION_FAILED: Reaction.ABORT,
        E.UNKNOWN_PRODUCER_ID: Reaction.ABORT,
        E.INVALID_PRODUCER_ID_MAPPING: Reaction.ABORT,
    },
    Kind.OFFSET_COMMIT: {
        E.REQUEST_TIMED_OUT: Reaction.FIND_COORDINATOR,
        E.GROUP_AUTHORIZATION_FAILED: Reaction.ABORT,
        E.FENCED_INSTANCE_ID: Reaction.ABORT,
        E.UNKNOWN_MEMBER_ID: Reaction.ABORT,
        E.ILLEGAL_GENERATION: Reaction.ABORT,
        E.REBALANCE_IN_PROGRESS: Reaction.ABORT,
        E.STALE_MEMBER_EPOCH: Reaction.ABORT,
        # The topic was deleted: what was read of it is nothing that another of its name has.
        E.UNKNOWN_TOPIC_ID: Reaction.ABORT,
        E.GROUP_ID_NOT_FOUND: Reaction.ABORT,  # what ILLEGAL_GENERATION was before v6
    },
    Kind.COMMIT: {E.UNKNOWN_PRODUCER_ID: Reaction.ABORT},
    Kind.ABORT: {E.TRANSACTION_ABORTABLE: Reaction.FATAL},
    Kind.PRODUCE: {
        # The epoch was raised, by a timeout for example; EndTxn says whether for good (KIP-588).
        E.INVALID_PRODUCER_EPOCH: Reaction.ABORT,
        E.INVALID_TXN_STATE: Reaction.ABORT,
        E.INVALID_PRODUCER_ID_MAPPING: Reaction.FATAL,
    },
}

OTHERWISE: Final[dict[Kind, Reaction]] = {
    Kind.FIND_COORDINATOR: Reaction.FATAL,
    Kind.INIT_PRODUCER_ID: Reaction.FATAL,
    Kind.ADD_PARTITIONS: Reaction.ABORT,
    Kind.ADD_OFFSETS: Reaction.FATAL,
    Kind.OFFSET_COMMIT: Reaction.FATAL,
    Kind.COMMIT: Reaction.FATAL,
    Kind.ABORT: Reaction.FATAL,
    Kind.PRODUCE: Reaction.ABORT,
}

_SEVERITY: Final = {reaction: rank for rank, reaction in enumerate(Reaction)}


def reaction_to(kind: Kind, code: int) -> Reaction:
    """What `code` in an answer of `kind` means."""
    found = DIFFERING[kind].get(code, COMMON.get(code))
    if found is not None:
        return found
    return Reaction.AGAIN if is_retriable(code) else OTHERWISE[kind]


def worst(reactions: list[tuple[Reaction, int]]) -> tuple[Reaction, int]:
    """The gravest of an answer's reactions, and the error that called for it.

    OPERATION_NOT_ATTEMPTED counts only without another error: it says that there is one.
    """
    no_reason = (E.NONE, E.OPERATION_NOT_ATTEMPTED)
    reasons = [one for one in reactions if one[1] not in no_reason] or reactions
    return max(reasons, key=lambda one: _SEVERITY[one[0]], default=(Reaction.DONE, 0))
