"""ReadShareGroupStateSummary (key 87): where a share group stands, without record for record.

The group coordinator sends it to the share coordinator to answer DescribeShareGroupOffsets
(KIP-932).

* v0 was early access in Kafka 4.0 and is stable from 4.1 on. The answer of early access had no
  `leader_epoch`; here v0 is what stable releases send.
* v1 also counts the records that are settled, from which lag is computed (KIP-1226).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, String, Uuid


class PartitionData(Struct):
    """A partition to ask about."""

    partition: Int32 = field(doc="Number of the partition.")
    leader_epoch: Int32 = field(
        doc="Epoch of the leader as the sender knows it; Kafka sends 0 and does not look at it.",
    )


class ReadStateSummaryData(Struct):
    """The partitions of one topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[PartitionData] = field(doc="One entry per partition.")


class ReadShareGroupStateSummaryRequest(
    Request["ReadShareGroupStateSummaryResponse"], api_key=87, versions="0-1", flexible="0+"
):
    """Asks where a group stands."""

    group_id: String = field(doc="Id of the share group.")
    topics: list[ReadStateSummaryData] = field(doc="The topics.")


class PartitionResult(Struct):
    """Where the group stands in one partition."""

    partition: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(doc="0, or why it is not known; the rest means nothing then.")
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )
    state_epoch: Int32 = field(doc="Epoch of the state; 0 when there is none.")
    leader_epoch: Int32 = field(
        doc="Epoch of the leader that last wrote or read the state; 0 before the first.",
    )
    start_offset: Int64 = field(
        doc="First offset that is not settled; -1 without a state, or one that does not say.",
    )
    delivery_complete_count: Int32 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc="Records from `start_offset` on that are settled; -1 when not counted (KIP-1226).",
    )


class ReadStateSummaryResult(Struct):
    """The partitions of one topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[PartitionResult] = field(doc="One entry per partition of the request.")


class ReadShareGroupStateSummaryResponse(
    Message, api_key=87, kind="response", versions="0-1", flexible="0+"
):
    """Where the group stands."""

    results: list[ReadStateSummaryResult] = field(doc="One entry per topic of the request.")
