"""InitProducerId (key 22): get a producer id and epoch, and end what an earlier one left open.

Without a transactional id any broker answers; with one its coordinator does, and fences older
producers of that id (KIP-98).

* v1 throttles after the answer (KIP-219), v2 is flexible, v3 lets a producer bump its epoch
  (KIP-360), v4 allows error 90 (KIP-588), v5 error 120 (KIP-890).
* v6 takes part in two-phase commits (KIP-939); Kafka does not advertise it yet.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.types import Bool, Int16, Int32, Int64, String


class InitProducerIdRequest(
    Request["InitProducerIdResponse"],
    api_key=22,
    versions="0-6",
    flexible="2+",
    latest_unstable=True,
):
    """Asks for a producer id."""

    transactional_id: String | None = field(
        doc="Id of the producer's transactions, or null for idempotence alone.",
    )
    transaction_timeout_ms: Int32 = field(
        doc="Milliseconds after which the coordinator aborts an idle transaction.",
    )
    producer_id: Int64 = field(
        "3+",
        default=-1,
        doc="Id the producer has already; -1 for a new one.",
    )
    producer_epoch: Int16 = field(
        "3+",
        default=-1,
        doc="Epoch that goes with it; -1 for a new one.",
    )
    enable_2pc: Bool = field(
        "6+",
        name="Enable2Pc",
        doc="Whether transactions end only when an outer coordinator says so.",
    )
    keep_prepared_txn: Bool = field(
        "6+",
        doc="Whether to keep a prepared transaction instead of aborting it.",
    )


class InitProducerIdResponse(Message, api_key=22, kind="response", versions="0-6", flexible="2+"):
    """The producer's id and epoch."""

    throttle_time_ms: Int32 = field(
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0. 51: try again, the last transaction still ends; 90 (47 up to v3): another "
            "producer has the transactional id; 50 a timeout above the broker's limit, 42 an "
            "empty transactional id; 14, 15 or 16: no coordinator here now; 31, 53."
        ),
    )
    producer_id: Int64 = field(default=-1, doc="Id of the producer; -1 on an error.")
    producer_epoch: Int16 = field(doc="Epoch that goes with it.")
    ongoing_txn_producer_id: Int64 = field(
        "6+",
        default=-1,
        doc="Id in the transaction that was kept; -1 for none.",
    )
    ongoing_txn_producer_epoch: Int16 = field(
        "6+",
        default=-1,
        doc="Epoch in the transaction that was kept; -1 for none.",
    )
