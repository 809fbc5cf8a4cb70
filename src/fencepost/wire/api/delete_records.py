"""DeleteRecords (key 21): give up the records below an offset.

Answered by the leader of each partition once every replica has moved its log start offset
(KIP-107). v1 throttles after the answer (KIP-219), v2 is flexible.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, String


class DeleteRecordsPartition(Struct):
    """Up to where to delete in one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    offset: Int64 = field(doc="First offset to keep; -1 stands for the high watermark.")


class DeleteRecordsTopic(Struct):
    """The partitions of one topic."""

    name: String = field(doc="Name of the topic.")
    partitions: list[DeleteRecordsPartition] = field(doc="One entry per partition.")


class DeleteRecordsRequest(
    Request["DeleteRecordsResponse"], api_key=21, versions="0-2", flexible="2+"
):
    """Deletes records from the start of partitions."""

    topics: list[DeleteRecordsTopic] = field(doc="One entry per topic.")
    timeout_ms: Int32 = field(doc="Milliseconds to wait for the followers before error 7.")


class DeleteRecordsPartitionResult(Struct):
    """What became of one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    low_watermark: Int64 = field(
        doc="Smallest log start offset among the live replicas; -1 on an error.",
    )
    error_code: Int16 = field(
        doc=(
            "0. 1 above the high watermark; 3, 6 or 56: ask for metadata; 7: replicas have not "
            "followed in time; 44 the topic is only compacted, 17, 29."
        ),
    )


class DeleteRecordsTopicResult(Struct):
    """What became of one topic's partitions."""

    name: String = field(doc="Name of the topic.")
    partitions: list[DeleteRecordsPartitionResult] = field(
        doc="One entry per partition of the request.",
    )


class DeleteRecordsResponse(Message, api_key=21, kind="response", versions="0-2", flexible="2+"):
    """How far the partitions' starts have moved."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    topics: list[DeleteRecordsTopicResult] = field(doc="One entry per topic of the request.")
