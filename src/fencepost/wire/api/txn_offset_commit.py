"""TxnOffsetCommit (key 28): commit offsets that count only if the transaction does (KIP-98).

v1 throttles after the answer (KIP-219), v2 adds leader epochs (KIP-320), v3 is flexible and names
the group's member, so that it can be fenced (KIP-447), v4 allows error 120, v5 adds the group to
the transaction implicitly (both KIP-890), v6 names topics by id (KIP-1319).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, String, Uuid


class TxnOffsetCommitRequestPartition(Struct):
    """How far one partition was read."""

    partition_index: Int32 = field(doc="Number of the partition.")
    committed_offset: Int64 = field(doc="Next offset to read.")
    committed_leader_epoch: Int32 = field(
        "2+",
        default=-1,
        ignorable=True,
        doc="Epoch of the last record read; -1 when unknown.",
    )
    committed_metadata: String | None = field(doc="Text to keep with it, or null.")


class TxnOffsetCommitRequestTopic(Struct):
    """The partitions of one topic."""

    name: String = field("0-5", ignorable=True, doc="Name of the topic, up to v5.")
    topic_id: Uuid = field("6+", ignorable=True, doc="Id of the topic, from v6 on.")
    partitions: list[TxnOffsetCommitRequestPartition] = field(doc="One entry per partition.")


class TxnOffsetCommitRequest(
    Request["TxnOffsetCommitResponse"], api_key=28, versions="0-6", flexible="3+"
):
    """Commits offsets within a transaction."""

    transactional_id: String = field(doc="Id of the producer's transactions.")
    group_id: String = field(doc="Id of the group.")
    producer_id: Int64 = field(doc="Id of the producer.")
    producer_epoch: Int16 = field(doc="Epoch that goes with it; an old one is fenced.")
    generation_id_or_member_epoch: Int32 = field(
        "3+",
        default=-1,
        doc="Generation or epoch of the member; -1 outside of a group.",
    )
    member_id: String = field("3+", doc="Id of the member; empty outside of a group.")
    group_instance_id: String | None = field(
        "3+",
        default=None,
        doc="Id of a static member, or null.",
    )
    topics: list[TxnOffsetCommitRequestTopic] = field(doc="One entry per topic.")


class TxnOffsetCommitResponsePartition(Struct):
    """What became of one offset."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(
        doc=(
            "0. 14, 15 or 16: no coordinator here now; 22, 25 or 82: the member is not in any "
            "more, 113 its epoch is old; 47, 48 or 49: not in this producer's transaction, 120 "
            "(v4+) abort it; 12 or 28 too large, 3, 24, 29, 30, 43, 53."
        ),
    )


class TxnOffsetCommitResponseTopic(Struct):
    """What became of one topic's offsets."""

    name: String = field("0-5", ignorable=True, doc="Name of the topic, up to v5.")
    topic_id: Uuid = field("6+", ignorable=True, doc="Id of the topic, from v6 on.")
    partitions: list[TxnOffsetCommitResponsePartition] = field(doc="One entry per partition.")


class TxnOffsetCommitResponse(Message, api_key=28, kind="response", versions="0-6", flexible="3+"):
    """What became of the offsets."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    topics: list[TxnOffsetCommitResponseTopic] = field(doc="One entry per topic of the request.")
