"""DescribeQuorum (key 55): how far the Raft voters and observers are (KIP-595, KIP-642).

Only the leader knows; others answer error 6. v1 adds times (KIP-836), v2 directories, listeners
and error texts (KIP-853).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, String, UInt16, Uuid


class PartitionDataRequest(Struct, kafka_name="PartitionData"):
    """A partition to describe."""

    partition_index: Int32 = field(doc="Number of the partition: 0.")


class TopicDataRequest(Struct, kafka_name="TopicData"):
    """A topic to describe."""

    topic_name: String = field(doc="Name of the topic: `__cluster_metadata`.")
    partitions: list[PartitionDataRequest] = field(doc="Its partitions.")


class DescribeQuorumRequest(
    Request["DescribeQuorumResponse"], api_key=55, versions="0-2", flexible="0+"
):
    """Asks the leader about its quorum."""

    topics: list[TopicDataRequest] = field(doc="The topics.")


class ReplicaState(Struct):
    """How far one replica is."""

    replica_id: Int32 = field(doc="Node id of the replica.")
    replica_directory_id: Uuid = field("2+", doc="Directory id of the replica.")
    log_end_offset: Int64 = field(
        doc="Where its log ends, by its last fetch; -1 when it has not fetched.",
    )
    last_fetch_timestamp: Int64 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc="Milliseconds since 1970 of its last fetch; -1 when unknown.",
    )
    last_caught_up_timestamp: Int64 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc="Milliseconds since 1970 at which it last had all the leader had; -1 when unknown.",
    )


class PartitionDataResponse(Struct, kafka_name="PartitionData"):
    """The quorum of one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(doc="0, or why it is not described.")
    error_message: String | None = field(
        "2+",
        ignorable=True,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    leader_id: Int32 = field(doc="Node id of the leader; -1 for none.")
    leader_epoch: Int32 = field(doc="Latest epoch.")
    high_watermark: Int64 = field(doc="Offset below which records are committed; -1 when unknown.")
    current_voters: list[ReplicaState] = field(doc="The voters.")
    observers: list[ReplicaState] = field(doc="Replicas that follow without a vote: brokers.")


class TopicDataResponse(Struct, kafka_name="TopicData"):
    """The quorum of one topic."""

    topic_name: String = field(doc="Name of the topic.")
    partitions: list[PartitionDataResponse] = field(doc="Its partitions.")


class Listener(Struct):
    """One listener of a node."""

    name: String = field("2+", doc="Name of the listener.")
    host: String = field("2+", doc="Host name or address a client can connect to.")
    port: UInt16 = field("2+", doc="TCP port.")


class Node(Struct):
    """A voter and where it is reached."""

    node_id: Int32 = field("2+", doc="Node id of the voter.")
    listeners: list[Listener] = field("2+", doc="Its listeners.")


class DescribeQuorumResponse(Message, api_key=55, kind="response", versions="0-2", flexible="0+"):
    """The state of the quorum."""

    error_code: Int16 = field(doc="Error of the whole request.")
    error_message: String | None = field(
        "2+",
        ignorable=True,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    topics: list[TopicDataResponse] = field(doc="The topics.")
    nodes: list[Node] = field("2+", doc="The voters and where they are reached.")
