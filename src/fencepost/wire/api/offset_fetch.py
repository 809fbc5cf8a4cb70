"""OffsetFetch (key 9): how far groups have read.

* v0 read ZooKeeper, v1 reads the coordinator. v2 takes null for all topics and has a top-level
  error (KIP-88), v3 adds the throttle time, v4 throttles after the answer (KIP-219), v5 leader
  epochs (KIP-320), v6 is flexible.
* v7 can wait for offsets of open transactions (KIP-447), v8 asks for many groups (KIP-709), v9
  checks a member of the newer protocol (KIP-848), v10 names topics by id (KIP-516).

An offset of -1 means that none is committed; that is no error.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int16, Int32, Int64, String, Uuid


class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic, up to v7."""

    name: String = field("0-7", doc="Name of the topic.")
    partition_indexes: list[Int32] = field("0-7", doc="Numbers of the partitions.")


class OffsetFetchRequestTopics(Struct):
    """Partitions of one topic, from v8 on."""

    name: String = field("8-9", ignorable=True, doc="Name of the topic, up to v9.")
    topic_id: Uuid = field("10+", ignorable=True, doc="Id of the topic, from v10 on.")
    partition_indexes: list[Int32] = field("8+", doc="Numbers of the partitions.")


class OffsetFetchRequestGroup(Struct):
    """A group to ask about."""

    group_id: String = field("8+", doc="Id of the group.")
    member_id: String | None = field(
        "9+",
        default=None,
        ignorable=True,
        doc="Id of the member that asks, or null from outside.",
    )
    member_epoch: Int32 = field(
        "9+",
        default=-1,
        ignorable=True,
        doc="Its epoch; -1 from outside or for a classic group.",
    )
    topics: list[OffsetFetchRequestTopics] | None = field(
        "8+",
        doc="The topics; null for all that have an offset.",
    )


class OffsetFetchRequest(Request["OffsetFetchResponse"], api_key=9, versions="0-10", flexible="6+"):
    """Asks for committed offsets."""

    group_id: String = field("0-7", doc="Id of the group, up to v7.")
    topics: list[OffsetFetchRequestTopic] | None = field(
        "0-7",
        nullable="2-7",
        doc="The topics, up to v7; null (v2+) for all that have an offset.",
    )
    groups: list[OffsetFetchRequestGroup] = field("8+", doc="The groups, from v8 on.")
    require_stable: Bool = field(
        "7+",
        doc="Whether to answer error 88 instead of an offset a transaction may change.",
    )


class OffsetFetchResponsePartition(Struct):
    """An offset, up to v7."""

    partition_index: Int32 = field("0-7", doc="Number of the partition.")
    committed_offset: Int64 = field("0-7", doc="Next offset to read; -1 when none is committed.")
    committed_leader_epoch: Int32 = field(
        "5-7",
        default=-1,
        ignorable=True,
        doc="Epoch committed with it; -1 when unknown.",
    )
    metadata: String | None = field("0-7", doc="Text committed with it.")
    error_code: Int16 = field(
        "0-7",
        doc=(
            "0; 88 (v7+) a transaction over it is not decided, with `require_stable`; 3, 29, 100 "
            "(v10+)."
        ),
    )


class OffsetFetchResponseTopic(Struct):
    """Offsets of one topic, up to v7."""

    name: String = field("0-7", doc="Name of the topic.")
    partitions: list[OffsetFetchResponsePartition] = field("0-7", doc="The offsets.")


class OffsetFetchResponsePartitions(Struct):
    """An offset, from v8 on."""

    partition_index: Int32 = field("8+", doc="Number of the partition.")
    committed_offset: Int64 = field("8+", doc="Next offset to read; -1 when none is committed.")
    committed_leader_epoch: Int32 = field(
        "8+",
        default=-1,
        ignorable=True,
        doc="Epoch committed with it; -1 when unknown.",
    )
    metadata: String | None = field("8+", doc="Text committed with it.")
    error_code: Int16 = field(
        "8+",
        doc=(
            "0; 88 (v7+) a transaction over it is not decided, with `require_stable`; 3, 29, 100 "
            "(v10+)."
        ),
    )


class OffsetFetchResponseTopics(Struct):
    """Offsets of one topic, from v8 on."""

    name: String = field("8-9", ignorable=True, doc="Name of the topic, up to v9.")
    topic_id: Uuid = field("10+", ignorable=True, doc="Id of the topic, from v10 on.")
    partitions: list[OffsetFetchResponsePartitions] = field("8+", doc="The offsets.")


class OffsetFetchResponseGroup(Struct):
    """Offsets of one group."""

    group_id: String = field("8+", doc="Id of the group.")
    topics: list[OffsetFetchResponseTopics] = field("8+", doc="The offsets, by topic.")
    error_code: Int16 = field(
        "8+",
        doc=(
            "0; 14, 15 or 16: no coordinator here now, 25 or 113 (v9+) not a member, or one of an "
            "old epoch, 24, 30."
        ),
    )


class OffsetFetchResponse(Message, api_key=9, kind="response", versions="0-10", flexible="6+"):
    """The committed offsets."""

    throttle_time_ms: Int32 = field(
        "3+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    topics: list[OffsetFetchResponseTopic] = field("0-7", doc="The offsets, up to v7.")
    error_code: Int16 = field(
        "2-7",
        ignorable=True,
        doc="Error of the whole request, v2 to v7: 14, 15 or 16: no coordinator here now, 24, 30.",
    )
    groups: list[OffsetFetchResponseGroup] = field(
        "8+",
        doc="One entry per group of the request, from v8 on.",
    )
