"""EndTxn (key 26): commit or abort a transaction (KIP-98).

v1 throttles after the answer (KIP-219), v2 allows error 90 (KIP-588), v3 is flexible, v4 allows
error 120, v5 gives the producer a new epoch with every transaction (both KIP-890).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.types import Bool, Int16, Int32, Int64, String


class EndTxnRequest(Request["EndTxnResponse"], api_key=26, versions="0-5", flexible="3+"):
    """Ends a transaction."""

    transactional_id: String = field(doc="Id of the producer's transactions.")
    producer_id: Int64 = field(doc="Id of the producer.")
    producer_epoch: Int16 = field(doc="Epoch that goes with it; an old one is fenced.")
    committed: Bool = field(doc="Whether to commit; otherwise abort.")


class EndTxnResponse(Message, api_key=26, kind="response", versions="0-5", flexible="3+"):
    """Whether the transaction's end is decided."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0. 51: try again, it is ending; 90 (47 up to v1) or 49: the producer is fenced; 48: "
            "it cannot end in this way now; 14, 15 or 16: no coordinator here now; 42, 53."
        ),
    )
    producer_id: Int64 = field(
        "5+",
        default=-1,
        ignorable=True,
        doc="Id of the producer from now on; -1 when it stays.",
    )
    producer_epoch: Int16 = field(
        "5+",
        default=-1,
        ignorable=True,
        doc="Epoch of the producer from now on; -1 when it stays.",
    )
