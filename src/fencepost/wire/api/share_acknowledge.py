"""ShareAcknowledge (key 79): a share consumer says what became of records, without fetching more.

It goes to the leaders of the partitions, within the share session that ShareFetch opened, and
counts in it like a fetch (KIP-932).

* v0 was early access in Kafka 4.0, never stable, and is gone from 4.1 on.
* v1 is the first stable version, with the fields of v0.
* v2 can renew the locks of records that take longer to process (KIP-1222).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int8, Int16, Int32, Int64, String, Uuid


class AcknowledgementBatch(Struct):
    """What became of a range of records the member had acquired."""

    first_offset: Int64 = field(doc="First offset of the range.")
    last_offset: Int64 = field(doc="Last offset of the range, which is part of it.")
    acknowledge_types: list[Int8] = field(
        doc=(
            "One number for the whole range or one per offset: 0 there is no record at the offset, "
            "1 it was processed, 2 hand it out again, 3 never again, and from v2 on 4 lock it for "
            "longer."
        ),
    )


class AcknowledgePartition(Struct):
    """A partition with records to settle."""

    partition_index: Int32 = field(doc="Number of the partition.")
    acknowledgement_batches: list[AcknowledgementBatch] = field(
        doc="What became of acquired records, in order of offsets.",
    )


class AcknowledgeTopic(Struct):
    """The partitions of one topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[AcknowledgePartition] = field(doc="One entry per partition.")


class ShareAcknowledgeRequest(
    Request["ShareAcknowledgeResponse"], api_key=79, versions="0-2", flexible="0+"
):
    """Settles acquired records."""

    group_id: String | None = field(
        default=None,
        doc="Id of the group; a broker refuses null with error 42.",
    )
    member_id: String | None = field(
        doc="Id of the member; a broker refuses null, the empty one and more than 36 letters.",
    )
    share_session_epoch: Int32 = field(
        doc=(
            "One more than in the member's last request to this broker, or -1 to close the session "
            "and release what is still locked; 0 is refused, since only a fetch opens a session."
        ),
    )
    is_renew_ack: Bool = field(
        "2+",
        doc="Whether acknowledgements of type 4 are among them (KIP-1222).",
    )
    topics: list[AcknowledgeTopic] = field(doc="The topics.")


class LeaderIdAndEpoch(Struct):
    """The leader the broker knows of."""

    leader_id: Int32 = field(doc="Broker that leads; -1 when unknown, 0 also without an error.")
    leader_epoch: Int32 = field(doc="Epoch of that leader; -1 when unknown.")


class PartitionData(Struct):
    """What became of one partition's acknowledgements."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(
        doc="0, or why they were refused; 121 when the member had lost the lock.",
    )
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )
    current_leader: LeaderIdAndEpoch = field(
        doc="The leader to turn to, with errors 6 and 74; says nothing otherwise.",
    )


class ShareAcknowledgeTopicResponse(Struct):
    """What became of one topic's acknowledgements."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[PartitionData] = field(doc="One entry per partition of the request.")


class NodeEndpoint(Struct):
    """Where a broker named in `current_leader` is reached."""

    node_id: Int32 = field(doc="Id of the broker.")
    host: String = field(doc="Host name or address a client can connect to.")
    port: Int32 = field(doc="TCP port that goes with `host`.")
    rack: String | None = field(
        default=None,
        doc="Rack of the node, or null when it has none configured.",
    )


class ShareAcknowledgeResponse(Message, api_key=79, kind="response", versions="0-2", flexible="0+"):
    """What became of the acknowledgements."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc="Error of the whole request: 122 and 123 concern the share session.",
    )
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )
    acquisition_lock_timeout_ms: Int32 = field(
        "2+",
        ignorable=True,
        doc="Milliseconds for which renewed records are locked, from the moment of renewing.",
    )
    responses: list[ShareAcknowledgeTopicResponse] = field(doc="The topics of the request.")
    node_endpoints: list[NodeEndpoint] = field(
        doc="Addresses of the brokers named as current leaders; empty for none.",
    )
