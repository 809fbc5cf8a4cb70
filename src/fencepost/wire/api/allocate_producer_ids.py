"""AllocateProducerIds (key 67): a broker asks the controller for producer ids (KIP-730)."""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.types import Int16, Int32, Int64


class AllocateProducerIdsRequest(
    Request["AllocateProducerIdsResponse"], api_key=67, versions="0", flexible="0+"
):
    """Asks for a block."""

    broker_id: Int32 = field(doc="Id of the broker.")
    broker_epoch: Int64 = field(
        default=-1,
        doc="Its registration epoch; error 77 if it is an old one.",
    )


class AllocateProducerIdsResponse(
    Message, api_key=67, kind="response", versions="0", flexible="0+"
):
    """The block."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(doc="0, or why there is none.")
    producer_id_start: Int64 = field(doc="First id of the block.")
    producer_id_len: Int32 = field(doc="Number of ids in the block.")
