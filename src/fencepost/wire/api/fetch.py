"""Fetch (key 1): read record batches from partitions.

One request serves three readers: consumers, who see no further than the high watermark (or the
last stable offset); followers, who see the leader's whole log and by their offsets tell it how
far they are; and Raft voters, who replicate the metadata log with it.

Batches are never cut at their start: the batch that contains the offset comes whole, even if the
offset lies inside. The last batch may be cut off by the size limit, and readers drop it.

* v3 limits the whole response (KIP-74), v4 adds isolation and aborted transactions (KIP-98), v5
  the log start offset (KIP-107), v7 incremental sessions (KIP-227), v9 fences by leader epoch
  (KIP-320), v10 allows zstd (KIP-110), v11 reads from the closest replica (KIP-392).
* v12 is flexible and tells of divergence within the answer (KIP-595), and points to snapshots
  (KIP-630); v13 names topics by id (KIP-516); v14 allows error 109 (KIP-405).
* v15 moves the replica's id into a tag next to its broker epoch (KIP-903), v16 gives addresses of
  new leaders (KIP-951), v17 the replica's directory (KIP-853), v18 the high watermark a Raft
  follower knows (KIP-1166).
* v1, v2, v6 and v8 change no field: but for the throttle time, they mark timestamps in batches
  (KIP-32), error 56 (KIP-112) and throttling after the answer (KIP-219).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int8, Int16, Int32, Int64, Records, String, Uuid


class ReplicaState(Struct):
    """Who is fetching, from v15 on (KIP-903)."""

    replica_id: Int32 = field(
        "15+",
        default=-1,
        doc="Broker id of a follower; -1 for a consumer, -2 for a debugging one.",
    )
    replica_epoch: Int64 = field(
        "15+",
        default=-1,
        doc="Registration epoch of that broker; -1 when it is none or does not know.",
    )


class FetchPartition(Struct):
    """Where to read in one partition, and what the reader believes about it."""

    partition: Int32 = field(doc="Number of the partition.")
    current_leader_epoch: Int32 = field(
        "9+",
        default=-1,
        ignorable=True,
        doc="Leader epoch the reader believes in: older is error 74, newer 75; -1 is not checked.",
    )
    fetch_offset: Int64 = field(doc="First offset wanted.")
    last_fetched_epoch: Int32 = field(
        "12+",
        default=-1,
        doc="Leader epoch of the last batch the reader has; -1 for no divergence check.",
    )
    log_start_offset: Int64 = field(
        "5+",
        default=-1,
        ignorable=True,
        doc="First offset a follower still holds; -1 from consumers.",
    )
    partition_max_bytes: Int32 = field(
        doc="Limit for this partition, in bytes; the first batch found may exceed it.",
    )
    replica_directory_id: Uuid = field(
        "17+",
        tag=0,
        ignorable=True,
        doc="Log directory of the fetching replica (KIP-853).",
    )
    high_watermark: Int64 = field(
        "18+",
        tag=1,
        default=0x7FFFFFFFFFFFFFFF,
        ignorable=True,
        doc=(
            "High watermark a Raft follower knows; a leader that knows a higher one answers at "
            "once (KIP-1166). The default, the greatest int64, asks for no such haste."
        ),
    )


class FetchTopic(Struct):
    """The partitions to read of one topic."""

    topic: String = field("0-12", ignorable=True, doc="Name of the topic, up to v12.")
    topic_id: Uuid = field("13+", ignorable=True, doc="Id of the topic, from v13 on.")
    partitions: list[FetchPartition] = field(
        doc="Partitions to read, in the order in which they may fill the response.",
    )


class ForgottenTopic(Struct):
    """Partitions to take out of an incremental session."""

    topic: String = field("7-12", ignorable=True, doc="Name of the topic, up to v12.")
    topic_id: Uuid = field("13+", ignorable=True, doc="Id of the topic, from v13 on.")
    partitions: list[Int32] = field("7+", doc="Numbers of the partitions.")


class FetchRequest(Request["FetchResponse"], api_key=1, versions="0-18", flexible="12+"):
    """Reads from partitions, waiting up to `max_wait_ms` for `min_bytes`."""

    cluster_id: String | None = field(
        "12+",
        tag=0,
        default=None,
        ignorable=True,
        doc="Cluster of a Raft reader, checked when given (error 104).",
    )
    replica_id: Int32 = field(
        "0-14",
        default=-1,
        doc="Broker id of a follower, -1 for a consumer; moved to `replica_state` at v15.",
    )
    replica_state: ReplicaState = field("15+", tag=1, doc="Who is fetching.")
    max_wait_ms: Int32 = field(doc="Milliseconds the answer may be held back for want of data.")
    min_bytes: Int32 = field(doc="Bytes that are worth answering for before the wait is over.")
    max_bytes: Int32 = field(
        "3+",
        default=0x7FFFFFFF,
        ignorable=True,
        doc="Limit of all partitions together; the first batch found may exceed it.",
    )
    isolation_level: Int8 = field(
        "4+",
        ignorable=True,
        doc="0 reads up to the high watermark, 1 only what committed transactions wrote.",
    )
    session_id: Int32 = field("7+", ignorable=True, doc="Session to continue; 0 for none.")
    session_epoch: Int32 = field(
        "7+",
        default=-1,
        ignorable=True,
        doc="0 opens a session, -1 closes it or reads without one, otherwise its next number.",
    )
    topics: list[FetchTopic] = field(
        doc="Partitions to read; in a session, those that are new or changed.",
    )
    forgotten_topics_data: list[ForgottenTopic] = field(
        "7+",
        doc="Partitions to drop from the session.",
    )
    rack_id: String = field(
        "11+",
        ignorable=True,
        doc="Rack of the consumer, for reading from a near replica; empty for none.",
    )


class EpochEndOffset(Struct):
    """Where the leader's log left the epoch the reader last fetched (KIP-595)."""

    epoch: Int32 = field(
        "12+",
        default=-1,
        doc="Largest epoch the leader has that is not above the reader's; -1 for no divergence.",
    )
    end_offset: Int64 = field(
        "12+",
        default=-1,
        doc="Where that epoch ends in the leader's log; -1 for no divergence.",
    )


class LeaderIdAndEpoch(Struct):
    """The leader the broker knows of."""

    leader_id: Int32 = field("12+", default=-1, doc="Broker that leads; -1 when unknown.")
    leader_epoch: Int32 = field("12+", default=-1, doc="Epoch of that leader; -1 when unknown.")


class SnapshotId(Struct):
    """A snapshot to fetch instead, where the Raft log no longer reaches back (KIP-630)."""

    end_offset: Int64 = field(
        default=-1,
        doc="Offset after the last record of the snapshot; -1 for none.",
    )
    epoch: Int32 = field(default=-1, doc="Epoch of that last record; -1 for none.")


class AbortedTransaction(Struct):
    """A transaction whose records a read_committed consumer must skip."""

    producer_id: Int64 = field(
        "4+",
        doc="Producer whose records are to be skipped, up to its next abort marker.",
    )
    first_offset: Int64 = field("4+", doc="Where the transaction begins in this partition.")


class PartitionData(Struct):
    """What one partition has to offer."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(
        doc=(
            "0, also for a divergence. 1 outside of the log, or for a follower 109 in the tiered "
            "part of it; 3, 6 or 56: ask for metadata; 74 or 75 another leader epoch; 100 or 103 "
            "the topic has another id; 76 zstd before v10; 2, 29."
        ),
    )
    high_watermark: Int64 = field(doc="Offset below which records are replicated; -1 on an error.")
    last_stable_offset: Int64 = field(
        "4+",
        default=-1,
        ignorable=True,
        doc="Offset below which every transaction is decided; -1 when not kept.",
    )
    log_start_offset: Int64 = field(
        "5+",
        default=-1,
        ignorable=True,
        doc="First offset the partition still holds; -1 when unknown.",
    )
    diverging_epoch: EpochEndOffset = field(
        "12+",
        tag=0,
        doc="Set when the reader's log left the leader's: truncate to it and ask again.",
    )
    current_leader: LeaderIdAndEpoch = field(
        "12+",
        tag=1,
        doc="The leader to turn to, with errors 6 and 74; always from Raft leaders.",
    )
    snapshot_id: SnapshotId = field(
        "12+",
        tag=2,
        doc="Set when the offset is only to be had from a snapshot.",
    )
    aborted_transactions: list[AbortedTransaction] | None = field(
        "4+",
        ignorable=True,
        doc="Aborted transactions in the returned range; null for read_uncommitted.",
    )
    preferred_read_replica: Int32 = field(
        "11+",
        default=-1,
        doc="Replica to read from instead; -1 for this one.",
    )
    records: Records | None = field(
        doc="Whole batches, the last possibly cut short; empty rather than null.",
    )


class FetchableTopicResponse(Struct):
    """What the partitions of one topic have to offer; a topic may appear more than once."""

    topic: String = field("0-12", ignorable=True, doc="Name of the topic, up to v12.")
    topic_id: Uuid = field("13+", ignorable=True, doc="Id of the topic, from v13 on.")
    partitions: list[PartitionData] = field(
        doc="One entry per partition that has something to say.",
    )


class NodeEndpoint(Struct):
    """Where a broker named in `current_leader` is reached."""

    node_id: Int32 = field("16+", doc="Id of the broker.")
    host: String = field("16+", doc="Host name or address a client can connect to.")
    port: Int32 = field("16+", doc="TCP port that goes with `host`.")
    rack: String | None = field(
        "16+",
        default=None,
        doc="Rack of the node, or null when it has none configured.",
    )


class FetchResponse(Message, api_key=1, kind="response", versions="0-18", flexible="12+"):
    """The records found, in the order of the request or of the session."""

    throttle_time_ms: Int32 = field(
        "1+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        "7+",
        ignorable=True,
        doc="Error of the whole request: 70, 71 and 106 concern the session.",
    )
    session_id: Int32 = field("7+", doc="Session this answer belongs to; 0 when there is none.")
    responses: list[FetchableTopicResponse] = field(
        doc="The topics; in a session, those in which something changed.",
    )
    node_endpoints: list[NodeEndpoint] = field(
        "16+",
        tag=0,
        doc="Addresses of the brokers named as current leaders.",
    )
