"""EndQuorumEpoch (key 54): a Raft leader resigns and says who should stand first (KIP-595).

v1 is flexible, names candidates by directory and adds the leader's listeners (KIP-853).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, String, UInt16, Uuid


class ReplicaInfo(Struct):
    """A voter that may stand for election."""

    candidate_id: Int32 = field("1+", doc="Node id of the voter.")
    candidate_directory_id: Uuid = field("1+", doc="Directory id of the voter.")


class PartitionDataRequest(Struct, kafka_name="PartitionData"):
    """The epoch that ends in one partition."""

    partition_index: Int32 = field(doc="Number of the partition: 0.")
    leader_id: Int32 = field(doc="Node id of the leader that resigns.")
    leader_epoch: Int32 = field(doc="Epoch that ends.")
    preferred_successors: list[Int32] = field(
        "0",
        ignorable=True,
        doc="Voters in the order in which they should stand, at v0.",
    )
    preferred_candidates: list[ReplicaInfo] = field(
        "1+",
        ignorable=True,
        doc="Voters in the order in which they should stand: those with the longest logs first.",
    )


class TopicDataRequest(Struct, kafka_name="TopicData"):
    """The epoch that ends in one topic."""

    topic_name: String = field(doc="Name of the topic: `__cluster_metadata`.")
    partitions: list[PartitionDataRequest] = field(doc="Its partitions.")


class LeaderEndpoint(Struct):
    """One listener of the leader."""

    name: String = field("1+", doc="Name of the listener.")
    host: String = field("1+", doc="Host name or address a client can connect to.")
    port: UInt16 = field("1+", doc="TCP port.")


class EndQuorumEpochRequest(
    Request["EndQuorumEpochResponse"], api_key=54, versions="0-1", flexible="1+"
):
    """Tells one voter that the leader resigns."""

    cluster_id: String | None = field(default=None, doc="Id of the cluster; null is not checked.")
    topics: list[TopicDataRequest] = field(doc="The topics.")
    leader_endpoints: list[LeaderEndpoint] = field(
        "1+",
        ignorable=True,
        doc="Listeners of the leader that resigns.",
    )


class PartitionDataResponse(Struct, kafka_name="PartitionData"):
    """What the voter makes of it."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(doc="0, or why the voter does not heed it.")
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


class EndQuorumEpochResponse(Message, api_key=54, kind="response", versions="0-1", flexible="1+"):
    """What the voter makes of the resignation."""

    error_code: Int16 = field(doc="Error of the whole request.")
    topics: list[TopicDataResponse] = field(
        doc="The topics; empty when the whole request is refused.",
    )
    node_endpoints: list[NodeEndpoint] = field(
        "1+",
        tag=0,
        doc="Address of the leader that is named.",
    )
