"""Keys and values of `__transaction_state`: what transaction coordinators remember (KIP-98).

Framing as in every coordinator's log (`coordinator`): the key is int16 record type 0 and a plain
body, the value an int16 version and a body, a null value forgets the transactional id. The version
in front of the value is the class's own, and v1 has the compact lengths and tags of the flexible
form, v0 has neither.

A trap: the tags of v1 are 0, 1, 3, 2 in schema order and ascend on the wire.

v0 is KIP-98; v1 is flexible (KIP-915: an older coordinator skips tags that it does not know) and
its tags are KIP-890, where the end of a transaction gives its producer a new epoch, and now and
then a new id.
"""

from __future__ import annotations

from enum import IntEnum

from fencepost.wire.message import Message, Struct, field
from fencepost.wire.records.coordinator import CoordinatorLog, UnknownRecordTypeError
from fencepost.wire.types import Int8, Int16, Int32, Int64, String

__all__ = [
    "PartitionsSchema",
    "TransactionLogKey",
    "TransactionLogValue",
    "TransactionState",
    "UnknownRecordTypeError",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_value",
]


class TransactionState(IntEnum):
    """The numbers of `TransactionLogValue.transaction_status`."""

    EMPTY = 0
    """The producer id is given out, no transaction has begun."""

    ONGOING = 1
    """Partitions have been added."""

    PREPARE_COMMIT = 2
    """The commit is decided; markers are on their way."""

    PREPARE_ABORT = 3
    """The abort is decided; markers are on their way."""

    COMPLETE_COMMIT = 4
    """Every partition has its commit marker."""

    COMPLETE_ABORT = 5
    """Every partition has its abort marker."""

    DEAD = 6
    """The transactional id has expired and is about to be forgotten."""

    PREPARE_EPOCH_FENCE = 7
    """The producer is being fenced off; its transaction is aborted next."""


class TransactionLogKey(
    Message, record_id=0, kind="coordinator-key", versions="0", flexible="none"
):
    """Whose transactions."""

    transactional_id: String = field("0", doc="Name that a producer keeps over restarts.")


class PartitionsSchema(Struct):
    """Partitions of one topic that take part in the transaction."""

    topic: String = field(doc="Name of the topic.")
    partition_ids: list[Int32] = field(doc="Numbers of the partitions.")


class TransactionLogValue(
    Message, record_id=0, kind="coordinator-value", versions="0-1", flexible="1+"
):
    """A transactional id's producer and its latest transaction.

    v1 is flexible, and adds ids and epochs before and behind the present ones (KIP-890).
    """

    producer_id: Int64 = field(doc="Id that the producer writes under.")
    previous_producer_id: Int64 = field(
        "1+",
        tag=0,
        default=-1,
        doc="Id of the transaction before this one; -1 when there was none.",
    )
    next_producer_id: Int64 = field(
        "1+",
        tag=1,
        default=-1,
        doc="Id once this transaction has ended, when its epochs are used up; -1 when they are not",
    )
    producer_epoch: Int16 = field(doc="Epoch that goes with the id; older ones are fenced off.")
    next_producer_epoch: Int16 = field(
        "1+",
        tag=3,
        default=-1,
        doc="Epoch with the next id; -1 when there is none.",
    )
    transaction_timeout_ms: Int32 = field(
        doc="Milliseconds a transaction may stay open before the coordinator aborts it.",
    )
    transaction_status: Int8 = field(doc="How far it is: a number of `TransactionState`.")
    transaction_partitions: list[PartitionsSchema] | None = field(
        doc="Partitions that get a marker, by topic; null when the transaction is empty.",
    )
    transaction_last_update_timestamp_ms: Int64 = field(
        doc="Milliseconds since 1970 of the latest change.",
    )
    transaction_start_timestamp_ms: Int64 = field(
        doc="Milliseconds since 1970 at which the transaction began; -1 before the first.",
    )
    client_transaction_version: Int16 = field(
        "1+",
        tag=2,
        doc="The `transaction.version` its producer follows: 2 is a new epoch per transaction.",
    )


_LOG = CoordinatorLog("__transaction_state", {0: (TransactionLogKey, TransactionLogValue)})

encode_key = _LOG.encode_key
decode_key = _LOG.decode_key
encode_value = _LOG.encode_value
decode_value = _LOG.decode_value
