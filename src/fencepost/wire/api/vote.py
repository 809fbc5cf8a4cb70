"""Vote (key 52): ask for a vote in a Raft election (KIP-595).

v1 tells voters apart by directory and returns addresses (KIP-853), v2 can ask without raising the
epoch (KIP-996).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int16, Int32, Int64, String, UInt16, Uuid


class PartitionDataRequest(Struct, kafka_name="PartitionData"):
    """The candidature for one partition."""

    partition_index: Int32 = field(doc="Number of the partition: 0.")
    replica_epoch: Int32 = field(
        doc="Epoch the candidate stands for, or for a pre-vote the one it is in.",
    )
    replica_id: Int32 = field(doc="Node id of the candidate.")
    replica_directory_id: Uuid = field("1+", ignorable=True, doc="Directory id of the candidate.")
    voter_directory_id: Uuid = field(
        "1+",
        ignorable=True,
        doc="Directory id of the voter that is asked.",
    )
    last_offset_epoch: Int32 = field(doc="Epoch of the candidate's last record.")
    last_offset: Int64 = field(doc="Offset at which the candidate's log ends.")
    pre_vote: Bool = field("2+", doc="Whether this only asks if an election would be won.")


class TopicDataRequest(Struct, kafka_name="TopicData"):
    """The candidature for one topic."""

    topic_name: String = field(doc="Name of the topic: `__cluster_metadata`.")
    partitions: list[PartitionDataRequest] = field(doc="Its partitions.")


class VoteRequest(Request["VoteResponse"], api_key=52, versions="0-2", flexible="0+"):
    """Asks one voter for its vote."""

    cluster_id: String | None = field(default=None, doc="Id of the cluster; null is not checked.")
    voter_id: Int32 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc="Node id of the voter that is asked; -1 is not checked.",
    )
    topics: list[TopicDataRequest] = field(doc="The topics.")


class PartitionDataResponse(Struct, kafka_name="PartitionData"):
    """The vote for one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(doc="0, or why there was no vote.")
    leader_id: Int32 = field(doc="Leader the voter knows of; -1 for none.")
    leader_epoch: Int32 = field(doc="Latest epoch the voter knows of.")
    vote_granted: Bool = field(doc="Whether the candidate has the vote.")


class TopicDataResponse(Struct, kafka_name="TopicData"):
    """The votes for one topic."""

    topic_name: String = field(doc="Name of the topic.")
    partitions: list[PartitionDataResponse] = field(doc="Its partitions.")


class NodeEndpoint(Struct):
    """Where the leader is reached."""

    node_id: Int32 = field("1+", doc="Node id of the leader.")
    host: String = field("1+", doc="Host name or address a client can connect to.")
    port: UInt16 = field("1+", doc="TCP port that goes with `host`.")


class VoteResponse(Message, api_key=52, kind="response", versions="0-2", flexible="0+"):
    """The vote."""

    error_code: Int16 = field(doc="Error of the whole request.")
    topics: list[TopicDataResponse] = field(
        doc="The topics; empty when the whole request is refused.",
    )
    node_endpoints: list[NodeEndpoint] = field(
        "1+",
        tag=0,
        doc="Address of the leader that is named.",
    )
