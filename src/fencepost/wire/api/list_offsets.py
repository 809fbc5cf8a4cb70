"""ListOffsets (key 2): the offset at a point in time, or at an end of the log.

Negative timestamps are questions of their own: -1 the end (high watermark or last stable offset,
by isolation), -2 the start, -3 the record with the greatest timestamp (v7), -4 the start of the
local log (v8), -5 the last offset in tiered storage (v9), -6 the first one not yet uploaded there
(v11).

* v0 returned a list of segment starts; v1 one offset and its timestamp (KIP-79).
* v2 adds the isolation level (KIP-98), v3 throttles after the answer (KIP-219), v4 leader epochs
  both ways (KIP-320), v5 allows error 78 while a new leader's high watermark is behind (KIP-207),
  v6 is flexible.
* v7 KIP-734, v8 KIP-405, v9 KIP-1005, v10 adds a time limit for remote look-ups (KIP-1075), v11
  KIP-1023.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int8, Int16, Int32, Int64, String


class ListOffsetsPartition(Struct):
    """The question about one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    current_leader_epoch: Int32 = field(
        "4+",
        default=-1,
        ignorable=True,
        doc="Leader epoch the caller believes in: older is error 74, newer 75; -1 is not checked.",
    )
    timestamp: Int64 = field(
        doc="Milliseconds since 1970, for the first record at or after it; or -1 to -6.",
    )
    max_num_offsets: Int32 = field("0", default=1, doc="How many offsets to list, at most.")


class ListOffsetsTopic(Struct):
    """The questions about one topic."""

    name: String = field(doc="Name of the topic.")
    partitions: list[ListOffsetsPartition] = field(
        doc="One entry per partition; a repeated one is answered with error 42.",
    )


class ListOffsetsRequest(Request["ListOffsetsResponse"], api_key=2, versions="0-11", flexible="6+"):
    """Asks leaders for offsets by time."""

    replica_id: Int32 = field(
        doc=(
            "Broker id of a follower, which may read to the log's end; -1 for a client; -2 for a "
            "debugging one, which any replica may answer."
        ),
    )
    isolation_level: Int8 = field(
        "2+",
        doc="0: the end is the high watermark; 1: it is the last stable offset.",
    )
    topics: list[ListOffsetsTopic] = field(doc="One entry per topic.")
    timeout_ms: Int32 = field(
        "10+",
        ignorable=True,
        doc="Milliseconds to wait for offsets in tiered storage.",
    )


class ListOffsetsPartitionResponse(Struct):
    """The answer for one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(
        doc=(
            "0, also when no record is that late. 3, 6 or 56: ask for metadata; 74 or 75 another "
            "leader epoch; 78 (5 up to v4) the new leader does not know its high watermark yet; "
            "35 a special timestamp of a later version, 42 the partition is named twice, 2, 29, "
            "43."
        ),
    )
    old_style_offsets: list[Int64] = field(
        "0",
        doc="Segment starts before the timestamp, newest first, and the end.",
    )
    timestamp: Int64 = field(
        "1+",
        default=-1,
        doc="Timestamp of the record found; -1 where the question named an end of the log.",
    )
    offset: Int64 = field("1+", default=-1, doc="The offset; -1 when no record is that late.")
    leader_epoch: Int32 = field(
        "4+",
        default=-1,
        doc="Epoch in which the record at the offset was written; -1 when unknown.",
    )


class ListOffsetsTopicResponse(Struct):
    """The answers for one topic."""

    name: String = field(doc="Name of the topic.")
    partitions: list[ListOffsetsPartitionResponse] = field(
        doc="One entry per partition of the request.",
    )


class ListOffsetsResponse(Message, api_key=2, kind="response", versions="0-11", flexible="6+"):
    """The offsets found."""

    throttle_time_ms: Int32 = field(
        "2+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    topics: list[ListOffsetsTopicResponse] = field(doc="One entry per topic of the request.")
