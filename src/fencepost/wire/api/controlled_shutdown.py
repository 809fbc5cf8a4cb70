"""ControlledShutdown (key 7): a broker of a ZooKeeper cluster asks its controller to be let go.

The controller moves leadership away from the broker and answers with what it could not move; the
broker asks again for a while and then stops anyway. KRaft brokers say the same in BrokerHeartbeat
(`want_shut_down`), and no broker since 4.0 serves this.

v0 is the one request without a client id in its header; from v1 on the header is the usual one. v2
adds the broker's epoch (KIP-380), v3 is flexible (KIP-482).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, String


class ControlledShutdownRequest(
    Request["ControlledShutdownResponse"], api_key=7, versions="0-3", flexible="3+"
):
    """Asks the controller to relieve a broker of its leaderships."""

    broker_id: Int32 = field(doc="Id of the broker that wants to stop.")
    broker_epoch: Int64 = field(
        "2+",
        default=-1,
        ignorable=True,
        doc="Its registration epoch; an older one is error 77, -1 is not checked.",
    )


class RemainingPartition(Struct):
    """A partition the broker still leads."""

    topic_name: String = field(doc="Name of the topic.")
    partition_index: Int32 = field(doc="Number of the partition.")


class ControlledShutdownResponse(
    Message, api_key=7, kind="response", versions="0-3", flexible="3+"
):
    """What is left to be moved."""

    error_code: Int16 = field(
        doc="0; 8 there is no such broker, 11 this is not the controller, 77 an old broker epoch.",
    )
    remaining_partitions: list[RemainingPartition] = field(
        doc="Partitions no other replica could take over; empty when the broker may stop.",
    )
