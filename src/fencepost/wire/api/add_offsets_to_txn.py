"""AddOffsetsToTxn (key 25): a group's offsets become part of a transaction (KIP-98).

v1 throttles after the answer (KIP-219), v2 allows error 90 (KIP-588), v3 is flexible, v4 allows
error 120 (KIP-890).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.types import Int16, Int32, Int64, String


class AddOffsetsToTxnRequest(
    Request["AddOffsetsToTxnResponse"], api_key=25, versions="0-4", flexible="3+"
):
    """Adds the offsets partition of a group to a transaction."""

    transactional_id: String = field(doc="Id of the producer's transactions.")
    producer_id: Int64 = field(doc="Id of the producer.")
    producer_epoch: Int16 = field(doc="Epoch that goes with it; an old one is fenced.")
    group_id: String = field(doc="Id of the group whose offsets will be committed.")


class AddOffsetsToTxnResponse(Message, api_key=25, kind="response", versions="0-4", flexible="3+"):
    """Whether offsets can be committed now."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0. 51: try again, the last transaction still ends; 90 (47 up to v1) or 49: the "
            "producer is fenced; 14, 15 or 16: no coordinator here now; 30, 42, 48, 53."
        ),
    )
