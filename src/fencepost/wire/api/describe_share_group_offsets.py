"""DescribeShareGroupOffsets (key 90): where share groups stand, for admin tools.

It goes to the coordinator of the groups (KIP-932). A share group has no committed offset: its start
offset is the first that is not settled, and later ones may be settled already.

v0 came, stable, with Kafka 4.1; v1 adds the lag (KIP-1226).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, String, Uuid


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """Partitions of one topic."""

    topic_name: String = field(doc="Name of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """A group to ask about."""

    group_id: String = field(doc="Id of the share group.")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(
        doc="The topics; null for all of which the group has a state.",
    )


class DescribeShareGroupOffsetsRequest(
    Request["DescribeShareGroupOffsetsResponse"], api_key=90, versions="0-1", flexible="0+"
):
    """Asks where groups stand."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(doc="The groups.")


class DescribeShareGroupOffsetsResponsePartition(Struct):
    """Where a group stands in one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    start_offset: Int64 = field(
        doc="First offset that is not settled; -1 when the group has no state there yet.",
    )
    leader_epoch: Int32 = field(
        doc="Leader epoch of the partition's leader that last used the state; 0 before the first.",
    )
    lag: Int64 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc=(
            "Offsets from `start_offset` to the end of the partition that are not settled; -1 when "
            "unknown (KIP-1226)."
        ),
    )
    error_code: Int16 = field(doc="0, or why the partition is not described.")
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )


class DescribeShareGroupOffsetsResponseTopic(Struct):
    """Where a group stands in one topic."""

    topic_name: String = field(doc="Name of the topic.")
    topic_id: Uuid = field(doc="Id of the topic; all zero when there is no such topic.")
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(
        doc="One entry per partition.",
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """Where a group stands."""

    group_id: String = field(doc="Id of the share group.")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(
        doc="The topics; empty on an error.",
    )
    error_code: Int16 = field(
        doc="0, or why the group is not described; 69 when there is no share group of this id.",
    )
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )


class DescribeShareGroupOffsetsResponse(
    Message, api_key=90, kind="response", versions="0-1", flexible="0+"
):
    """Where the groups stand."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(
        doc="One entry per group of the request.",
    )
