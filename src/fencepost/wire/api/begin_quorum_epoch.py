"""BeginQuorumEpoch (key 53): a new Raft leader tells the voters of its epoch (KIP-595).

v1 is flexible and adds the voter's key and the leader's listeners (KIP-853).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, String, UInt16, Uuid


class PartitionDataRequest(Struct, kafka_name="PartitionData"):
    """The new epoch of one partition."""

    partition_index: Int32 = field(doc="Number of the partition: 0.")
    voter_directory_id: Uuid = field(
        "1+",
        ignorable=True,
        doc="Directory id of the voter that is told.",
    )
    leader_id: Int32 = field(doc="Node id of the new leader.")
    leader_epoch: Int32 = field(doc="Epoch it leads.")


class TopicDataRequest(Struct, kafka_name="TopicData"):
    """The new epoch of one topic."""

    topic_name: String = field(doc="Name of the topic: `__cluster_metadata`.")
    partitions: list[PartitionDataRequest] = field(doc="Its partitions.")


class LeaderEndpoint(Struct):
    """One listener of the leader."""

    name: String = field("1+", doc="Name of the listener.")
    host: String = field("1+", doc="Host name or address a client can connect to.")
    port: UInt16 = field("1+", doc="TCP port.")


class BeginQuorumEpochRequest(
    Request["BeginQuorumEpochResponse"], api_key=53, versions="0-1", flexible="1+"
):
    """Tells one voter who leads."""

    cluster_id: String | None = field(default=None, doc="Id of the cluster; null is not checked.")
    voter_id: Int32 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc="Node id of the voter that is told; -1 is not checked.",
    )
    topics: list[TopicDataRequest] = field(doc="The topics.")
    leader_endpoints: list[LeaderEndpoint] = field(
        "1+",
        ignorable=True,
        doc="Listeners of the leader.",
    )


class PartitionDataResponse(Struct, kafka_name="PartitionData"):
    """What the voter makes of it."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(doc="0, or why the voter does not follow.")
    leader_id: Int32 = field(doc="Leader the voter knows of; -1 for none.")
    leader_epoch: Int32 = field(doc="Latest epoch the voter knows of.")


class TopicDataResponse(Struct, kafka_name="TopicData"):
    """What the voter makes of it, by topic."""

    topic_name: String = field(doc="Name of the topic.")
    partitions: list[PartitionDataResponse] = field(doc="Its partitions.")


class NodeEndpoint(Struct):
    """Where the leader is reached."""

    node_id: Int32 = field("1+", doc="Node id of the leader.")
    host: String = field("1+", doc="Host name or address a client can connect to.")
    port: UInt16 = field("1+", doc="TCP port that goes with `host`.")


class BeginQuorumEpochResponse(Message, api_key=53, kind="response", versions="0-1", flexible="1+"):
    """What the voter makes of the new epoch."""

    error_code: Int16 = field(doc="Error of the whole request.")
    topics: list[TopicDataResponse] = field(
        doc="The topics; empty when the whole request is refused.",
    )
    node_endpoints: list[NodeEndpoint] = field(
        "1+",
        tag=0,
        doc="Address of the leader that is named.",
    )
