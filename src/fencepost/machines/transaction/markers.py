"""Markers on their way to leaders: what one request has, and what follows each answer.

| answer                                                  | what follows                        |
|---------------------------------------------------------|-------------------------------------|
| 0                                                       | the partition has its marker        |
| 2, 3, 5, 6, 7, 8, 9, 14, 15, 16, 19, 20, 56, 74, 75     | sent again, to the present leader   |
| 47, 52                                                  | the partition knows of a later      |
|                                                         | producer or coordinator: sent again |
|                                                         | seldom, with an entry in the log    |
| 35, 43                                                  | the leader cannot do it, ever: done |
| any other                                               | a mistake somewhere: sent again,    |
|                                                         | with an entry in the log            |
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from fencepost.machines.transaction.model import TopicPartition, Transaction
from fencepost.machines.transaction.partition_set import by_topic
from fencepost.wire.api.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic
from fencepost.wire.errors import ErrorCode


class Reaction(Enum):
    """What a coordinator does about an answer."""

    DONE = "done"
    RETRY = "retry"
    REFUSED = "refused"
    """Another coordinator has written to the partition: this one is out of date and will be
    unloaded when the node applies the metadata. Or a client that is no coordinator has written a
    marker."""
    COMPLAIN = "complain"
    """As RETRY, and an operator should know."""


_REACTIONS: Final = {
    ErrorCode.NONE: Reaction.DONE,
    ErrorCode.INVALID_PRODUCER_EPOCH: Reaction.REFUSED,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: Reaction.REFUSED,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Reaction.DONE,
    ErrorCode.UNSUPPORTED_VERSION: Reaction.DONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction.RETRY,
    ErrorCode.LEADER_NOT_AVAILABLE: Reaction.RETRY,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Reaction.RETRY,
    ErrorCode.REQUEST_TIMED_OUT: Reaction.RETRY,
    ErrorCode.BROKER_NOT_AVAILABLE: Reaction.RETRY,
    ErrorCode.REPLICA_NOT_AVAILABLE: Reaction.RETRY,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.RETRY,
    ErrorCode.NOT_COORDINATOR: Reaction.RETRY,
    ErrorCode.NOT_ENOUGH_REPLICAS: Reaction.RETRY,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Reaction.RETRY,
    ErrorCode.KAFKA_STORAGE_ERROR: Reaction.RETRY,
    ErrorCode.FENCED_LEADER_EPOCH: Reaction.RETRY,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Reaction.RETRY,
}


def reaction_to(error: ErrorCode) -> Reaction:
    """What follows when a leader answers this for a partition."""
    return _REACTIONS.get(error, Reaction.COMPLAIN)


def marker_for(
    transaction: Transaction, partitions: Iterable[TopicPartition], coordinator_epoch: int
) -> WritableTxnMarker:
    """The marker of an end for those of its partitions."""
    return WritableTxnMarker(
        producer_id=transaction.identity.producer_id,
        producer_epoch=transaction.identity.epoch,
        transaction_result=transaction.is_committed,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions)
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction.client_version,
    )
