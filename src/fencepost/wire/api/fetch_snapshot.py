"""FetchSnapshot (key 59): a piece of a snapshot of the metadata log (KIP-630).

Sent by controllers and brokers whose Fetch was answered with a snapshot id: what they miss is no
longer in the leader's log. They ask for one piece after the other until they have `size` bytes,
check the snapshot, throw their log away and go on fetching at its end. v1 adds the reader's
directory and the leader's address (KIP-853).

The request needs CLUSTER_ACTION. Errors of the whole request: 31, 42, 104.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, Records, String, UInt16, Uuid


class SnapshotId(Struct):
    """Which snapshot: its name says how much of the log it stands for."""

    end_offset: Int64 = field(doc="Offset at which the log goes on; what comes before is in it.")
    epoch: Int32 = field(doc="Leader epoch of the last record that is in it.")


class PartitionSnapshotRequest(Struct, kafka_name="PartitionSnapshot"):
    """The piece to read."""

    partition: Int32 = field(doc="Number of the partition: 0.")
    current_leader_epoch: Int32 = field(
        doc="Leader epoch that the reader knows: an older one is error 74, a newer one 75.",
    )
    snapshot_id: SnapshotId = field(
        doc="The snapshot, as the Fetch response named it; error 98 when it is gone meanwhile.",
    )
    position: Int64 = field(
        doc="Where the piece begins: the bytes read so far. Error 99 unless within the snapshot.",
    )
    replica_directory_id: Uuid = field(
        "1+",
        tag=0,
        ignorable=True,
        doc="Directory id of the reader; zero when it does not know one, as up to v0.",
    )


class TopicSnapshotRequest(Struct, kafka_name="TopicSnapshot"):
    """The topic to read."""

    name: String = field(doc="Name of the topic: `__cluster_metadata`, any other is error 3.")
    partitions: list[PartitionSnapshotRequest] = field(doc="Its one partition.")


class FetchSnapshotRequest(
    Request["FetchSnapshotResponse"], api_key=59, versions="0-1", flexible="0+"
):
    """Asks the leader of the quorum for a piece of a snapshot."""

    cluster_id: String | None = field(
        tag=0,
        default=None,
        doc="Id of the cluster, error 104 if it is another; null is not checked.",
    )
    replica_id: Int32 = field(default=-1, doc="Node id of the reader; -1 for one without an id.")
    max_bytes: Int32 = field(
        default=0x7FFFFFFF,
        doc="Most bytes of the snapshot to return.",
    )
    topics: list[TopicSnapshotRequest] = field(doc="The one topic.")


class LeaderIdAndEpoch(Struct):
    """Who leads."""

    leader_id: Int32 = field(doc="Node id of the leader; -1 when there is none known.")
    leader_epoch: Int32 = field(doc="Its leader epoch: the latest the answering node knows of.")


class PartitionSnapshotResponse(Struct, kafka_name="PartitionSnapshot"):
    """The piece that was read."""

    index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(
        doc=(
            "0; 6 not the leader, 8 shutting down, 74 or 75 another epoch, 98 no such snapshot, "
            "99 no such position, 3 no such partition."
        ),
    )
    snapshot_id: SnapshotId = field(doc="The snapshot; zeros on an error.")
    current_leader: LeaderIdAndEpoch = field(
        tag=0,
        doc="Who leads, so that a reader who asked the wrong node finds the right one.",
    )
    size: Int64 = field(doc="Bytes of the whole snapshot.")
    position: Int64 = field(doc="Where in the snapshot the piece begins.")
    unaligned_records: Records = field(
        doc="The piece: bytes of record batches, cut anywhere, also inside of a batch.",
    )


class TopicSnapshotResponse(Struct, kafka_name="TopicSnapshot"):
    """The topic that was read."""

    name: String = field(doc="Name of the topic.")
    partitions: list[PartitionSnapshotResponse] = field(doc="Its one partition.")


class NodeEndpoint(Struct):
    """Where the leader is reached."""

    node_id: Int32 = field("1+", doc="Node id of the leader.")
    host: String = field("1+", doc="Host name or address a client can connect to.")
    port: UInt16 = field("1+", doc="TCP port that goes with `host`.")


class FetchSnapshotResponse(Message, api_key=59, kind="response", versions="0-1", flexible="0+"):
    """A piece of the snapshot."""

    throttle_time_ms: Int32 = field(
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(doc="Error of the whole request: 31, 42 or 104; else 0.")
    topics: list[TopicSnapshotResponse] = field(
        doc="The one topic; empty when the whole request is refused.",
    )
    node_endpoints: list[NodeEndpoint] = field(
        "1+",
        tag=0,
        doc="Address of the leader that is named, on the listener that was asked; empty for none.",
    )
