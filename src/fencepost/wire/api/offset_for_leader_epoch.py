"""OffsetForLeaderEpoch (key 23): where an epoch ends in the leader's log.

This is the question by which a replica or a consumer finds out whether its log has parted from
the leader's: it names the epoch of its last record, and the leader answers with the largest epoch
it has that is not above it, and where that one ends. An end below what the asker has means that
its records were cut away (KIP-101, KIP-279, KIP-320).

Two traps. In the response the error stands before the partition. And "I do not know the epoch" is
no error: it is error 0 with epoch -1 and end offset -1.

* v0 is the question of KIP-101; v1 returns the epoch too, so that an asker can see that it has to
  ask again (KIP-279).
* v2 lets the caller be fenced by its own idea of the leader's epoch, and adds the throttle time;
  v3 adds the replica id, which brokers ignore (both KIP-320); v4 is flexible.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, String


class OffsetForLeaderPartition(Struct):
    """The question about one partition."""

    partition: Int32 = field(doc="Number of the partition.")
    current_leader_epoch: Int32 = field(
        "2+",
        default=-1,
        ignorable=True,
        doc="Leader epoch the caller believes in: older is error 74, newer 75; -1 is not checked.",
    )
    leader_epoch: Int32 = field(doc="The epoch whose end is wanted.")


class OffsetForLeaderTopic(Struct):
    """The questions about one topic."""

    topic: String = field(doc="Name of the topic.")
    partitions: list[OffsetForLeaderPartition] = field(doc="One entry per partition.")


class OffsetForLeaderEpochRequest(
    Request["OffsetForLeaderEpochResponse"], api_key=23, versions="0-4", flexible="4+"
):
    """Asks leaders where epochs end."""

    replica_id: Int32 = field(
        "3+",
        default=-2,
        ignorable=True,
        doc=(
            "Broker id of a follower, -1 for a consumer, -2 (the default) for debugging; not "
            "looked at by brokers, which answer as leaders only."
        ),
    )
    topics: list[OffsetForLeaderTopic] = field(doc="One entry per topic.")


class EpochEndOffset(Struct):
    """The answer for one partition; the error comes first on the wire."""

    error_code: Int16 = field(
        doc="0, also when the epoch is not known; otherwise 3, 6, 29, 56, 74 or 75.",
    )
    partition: Int32 = field(doc="Number of the partition.")
    leader_epoch: Int32 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc="Largest epoch not above the requested one; -1 when there is none.",
    )
    end_offset: Int64 = field(
        default=-1,
        doc=(
            "Where it ends: the start of the next epoch, or the log's end for the latest; -1 if "
            "unknown."
        ),
    )


class OffsetForLeaderTopicResult(Struct):
    """The answers for one topic."""

    topic: String = field(doc="Name of the topic.")
    partitions: list[EpochEndOffset] = field(doc="One entry per partition of the request.")


class OffsetForLeaderEpochResponse(
    Message, api_key=23, kind="response", versions="0-4", flexible="4+"
):
    """Where the epochs end."""

    throttle_time_ms: Int32 = field(
        "2+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    topics: list[OffsetForLeaderTopicResult] = field(doc="One entry per topic of the request.")
