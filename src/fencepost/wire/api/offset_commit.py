"""OffsetCommit (key 8): keep how far a group has read.

* v0 wrote to ZooKeeper; v1 writes to the group's coordinator and names generation and member.
* v2 adds a retention time, which v5 takes away again (KIP-211); v3 adds the throttle time, v4
  throttles after the answer (KIP-219), v6 leader epochs (KIP-320), v7 static members (KIP-345),
  v8 is flexible.
* v9 serves the newer consumer protocol, with error 69 for an unknown group and 113 for a member's
  old epoch (KIP-848); v10 names topics by id (KIP-516).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, String, Uuid


class OffsetCommitRequestPartition(Struct):
    """How far one partition was read."""

    partition_index: Int32 = field(doc="Number of the partition.")
    committed_offset: Int64 = field(doc="Next offset to read.")
    committed_leader_epoch: Int32 = field(
        "6+",
        default=-1,
        ignorable=True,
        doc="Epoch of the last record read; -1 when unknown.",
    )
    commit_timestamp: Int64 = field(
        "1",
        default=-1,
        doc="Milliseconds since 1970 to keep as the commit's time; -1 for now.",
    )
    committed_metadata: String | None = field(
        doc="Text to keep with it, up to the broker's limit, or null.",
    )


class OffsetCommitRequestTopic(Struct):
    """The partitions of one topic."""

    name: String = field("0-9", ignorable=True, doc="Name of the topic, up to v9.")
    topic_id: Uuid = field("10+", ignorable=True, doc="Id of the topic, from v10 on.")
    partitions: list[OffsetCommitRequestPartition] = field(doc="One entry per partition.")


class OffsetCommitRequest(
    Request["OffsetCommitResponse"], api_key=8, versions="0-10", flexible="8+"
):
    """Commits offsets, as a member of the group or (generation -1, no member) from outside."""

    group_id: String = field(doc="Id of the group.")
    generation_id_or_member_epoch: Int32 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc="Generation of a classic member, epoch of a newer one; -1 outside of a group.",
    )
    member_id: String = field(
        "1+",
        ignorable=True,
        doc="Id of the member; empty outside of a group.",
    )
    group_instance_id: String | None = field(
        "7+",
        default=None,
        doc="Id of a static member, or null.",
    )
    retention_time_ms: Int64 = field(
        "2-4",
        default=-1,
        ignorable=True,
        doc="Milliseconds to keep the offsets; -1 for the broker's setting.",
    )
    topics: list[OffsetCommitRequestTopic] = field(doc="One entry per topic.")


class OffsetCommitResponsePartition(Struct):
    """What became of one offset."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(
        doc=(
            "0. 14, 15 or 16: no coordinator here now; 22, 25, 69 or 82: the member is not in any "
            "more, 113 (v9+) its epoch is old; 27 join again first; 12 or 28 too large, 3, 24, "
            "29, 30, 100 (v10+)."
        ),
    )


class OffsetCommitResponseTopic(Struct):
    """What became of one topic's offsets."""

    name: String = field("0-9", ignorable=True, doc="Name of the topic, up to v9.")
    topic_id: Uuid = field("10+", ignorable=True, doc="Id of the topic, from v10 on.")
    partitions: list[OffsetCommitResponsePartition] = field(
        doc="One entry per partition of the request.",
    )


class OffsetCommitResponse(Message, api_key=8, kind="response", versions="0-10", flexible="8+"):
    """What became of the offsets."""

    throttle_time_ms: Int32 = field(
        "3+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    topics: list[OffsetCommitResponseTopic] = field(doc="One entry per topic of the request.")
