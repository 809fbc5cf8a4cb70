"""AlterShareGroupOffsets (key 91): set where a share group goes on, for admin tools.

It goes to the coordinator of the group, which must be empty (KIP-932). What the group knew of later
records of those partitions is forgotten.

v0 came, stable, with Kafka 4.1.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, String, Uuid


class AlterShareGroupOffsetsRequestPartition(Struct):
    """Where to go on in one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    start_offset: Int64 = field(doc="First offset to consume.")


class AlterShareGroupOffsetsRequestTopic(Struct):
    """Where to go on in one topic."""

    topic_name: String = field(doc="Name of the topic, which may appear only once.")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(
        doc="One entry per partition.",
    )


class AlterShareGroupOffsetsRequest(
    Request["AlterShareGroupOffsetsResponse"], api_key=91, versions="0", flexible="0+"
):
    """Sets where a group goes on."""

    group_id: String = field(doc="Id of the share group.")
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(doc="The topics.")


class AlterShareGroupOffsetsResponsePartition(Struct):
    """Whether it was set in one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(doc="0, or why it was not set.")
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )


class AlterShareGroupOffsetsResponseTopic(Struct):
    """Whether it was set in one topic."""

    topic_name: String = field(doc="Name of the topic.")
    topic_id: Uuid = field(doc="Id of the topic; all zero when there is no such topic.")
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(
        doc="One entry per partition of the request.",
    )


class AlterShareGroupOffsetsResponse(
    Message, api_key=91, kind="response", versions="0", flexible="0+"
):
    """Where it was set."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc="Error of the whole request; 68 when the group has members, 69 when there is none.",
    )
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(
        doc="One entry per topic of the request; empty on an error of the whole.",
    )
