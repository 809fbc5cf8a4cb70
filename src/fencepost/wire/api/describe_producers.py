"""DescribeProducers (key 61): producers the leader of a partition remembers (KIP-664).

Made to find transactions that hang: their `current_txn_start_offset` holds back the last stable
offset.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, String


class TopicRequest(Struct):
    """Partitions of one topic."""

    name: String = field(doc="Name of the topic.")
    partition_indexes: list[Int32] = field(doc="Numbers of the partitions.")


class DescribeProducersRequest(
    Request["DescribeProducersResponse"], api_key=61, versions="0", flexible="0+"
):
    """Asks leaders for the producers they remember."""

    topics: list[TopicRequest] = field(doc="One entry per topic.")


class ProducerState(Struct):
    """A producer that has lately written to the partition."""

    producer_id: Int64 = field(doc="Id of the producer.")
    producer_epoch: Int32 = field(doc="Epoch of its last batch.")
    last_sequence: Int32 = field(
        default=-1,
        doc="Sequence number of its last record; -1 when not known.",
    )
    last_timestamp: Int64 = field(
        default=-1,
        doc="Timestamp of its last batch, in milliseconds since 1970; -1 when not known.",
    )
    coordinator_epoch: Int32 = field(
        doc="Epoch of the coordinator that last ended a transaction of it; -1 for none.",
    )
    current_txn_start_offset: Int64 = field(
        default=-1,
        doc="Where its open transaction begins; -1 for none.",
    )


class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(doc="0, or why there are none.")
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    active_producers: list[ProducerState] = field(doc="The producers.")


class TopicResponse(Struct):
    """The producers of one topic's partitions."""

    name: String = field(doc="Name of the topic.")
    partitions: list[PartitionResponse] = field(doc="One entry per partition of the request.")


class DescribeProducersResponse(Message, api_key=61, kind="response", versions="0", flexible="0+"):
    """The producers."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    topics: list[TopicResponse] = field(doc="One entry per topic of the request.")
