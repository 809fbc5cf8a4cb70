"""OffsetDelete (key 47): forget a group's offsets in some partitions (KIP-496).

Refused for topics the group is subscribed to. One of two APIs that never became flexible.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, String


class OffsetDeleteRequestPartition(Struct):
    """A partition to forget."""

    partition_index: Int32 = field(doc="Number of the partition.")


class OffsetDeleteRequestTopic(Struct):
    """Partitions of one topic."""

    name: String = field(doc="Name of the topic.")
    partitions: list[OffsetDeleteRequestPartition] = field(doc="The partitions.")


class OffsetDeleteRequest(
    Request["OffsetDeleteResponse"], api_key=47, versions="0", flexible="none"
):
    """Forgets offsets."""

    group_id: String = field(doc="Id of the group.")
    topics: list[OffsetDeleteRequestTopic] = field(doc="One entry per topic.")


class OffsetDeleteResponsePartition(Struct):
    """What became of one offset."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(doc="0; 86 when the group is subscribed to the topic, 3, 29.")


class OffsetDeleteResponseTopic(Struct):
    """What became of one topic's offsets."""

    name: String = field(doc="Name of the topic.")
    partitions: list[OffsetDeleteResponsePartition] = field(
        doc="One entry per partition of the request.",
    )


class OffsetDeleteResponse(Message, api_key=47, kind="response", versions="0", flexible="none"):
    """What became of the offsets."""

    error_code: Int16 = field(
        doc=(
            "Error of the whole request: 14, 15 or 16: no coordinator here now, 68 it has "
            "members, 69 there is none, 24, 30."
        ),
    )
    throttle_time_ms: Int32 = field(
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    topics: list[OffsetDeleteResponseTopic] = field(doc="One entry per topic of the request.")
