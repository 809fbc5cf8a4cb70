"""StopReplica (key 5): a ZooKeeper cluster's controller has a broker stop or delete replicas.

Without deletion the broker stops fetching for them, as before a shutdown; with it their logs go, as
when a topic is deleted or reassigned. In KRaft the metadata log says so, and no broker since 4.0
serves this.

v1 adds the broker's epoch and groups partitions by topic (KIP-380), v2 is flexible (KIP-482), v3
gives every partition a leader epoch and a deletion mark of its own (KIP-570), v4 marks KRaft
controllers (KIP-866). Where the partitions are depends on the version: `ungrouped_partitions` at
v0, `topics` at v1 and v2, `topic_states` from v3 on.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int16, Int32, Int64, String


class StopReplicaPartitionV0(Struct):
    """A partition to stop, at v0."""

    topic_name: String = field("0", doc="Name of the topic.")
    partition_index: Int32 = field("0", doc="Number of the partition.")


class StopReplicaTopicV1(Struct):
    """The partitions of one topic to stop, at v1 and v2."""

    name: String = field("1-2", doc="Name of the topic.")
    partition_indexes: list[Int32] = field("1-2", doc="Numbers of the partitions.")


class StopReplicaPartitionState(Struct):
    """A partition to stop, from v3 on."""

    partition_index: Int32 = field("3+", doc="Number of the partition.")
    leader_epoch: Int32 = field(
        "3+",
        default=-1,
        doc=(
            "Epoch of the leader that is known to the controller; one below the broker's own is "
            "error 74. -1 and, when the topic is being deleted, -2 are not checked."
        ),
    )
    delete_partition: Bool = field("3+", doc="Whether to delete the replica's log as well.")


class StopReplicaTopicState(Struct):
    """The partitions of one topic to stop, from v3 on."""

    topic_name: String = field("3+", doc="Name of the topic.")
    partition_states: list[StopReplicaPartitionState] = field("3+", doc="One entry per partition.")


class StopReplicaRequest(Request["StopReplicaResponse"], api_key=5, versions="0-4", flexible="2+"):
    """Stops replicas on the broker that receives it."""

    controller_id: Int32 = field(doc="Id of the controller that sends this.")
    is_kraft_controller: Bool = field(
        "4+",
        default=False,
        name="isKRaftController",
        doc="Whether that is a KRaft controller that migrates a ZooKeeper cluster.",
    )
    controller_epoch: Int32 = field(
        doc="Epoch of that controller; one below the highest the broker has seen is error 11.",
    )
    broker_epoch: Int64 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc=(
            "Registration epoch of the receiver; an older one, meant for its incarnation before a "
            "restart, is error 77. -1 is not checked."
        ),
    )
    delete_partitions: Bool = field(
        "0-2",
        doc="Whether to delete the logs of all these replicas, up to v2; later each one says so.",
    )
    ungrouped_partitions: list[StopReplicaPartitionV0] = field("0", doc="The partitions, at v0.")
    topics: list[StopReplicaTopicV1] = field("1-2", doc="The partitions by topic, at v1 and v2.")
    topic_states: list[StopReplicaTopicState] = field(
        "3+",
        doc="The partitions by topic, from v3 on.",
    )


class StopReplicaPartitionError(Struct):
    """What became of one partition."""

    topic_name: String = field(doc="Name of the topic.")
    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(
        doc=(
            "0, also when the broker had no such replica; 56 its log directory is offline, 74 an "
            "older leader epoch (v3+)."
        ),
    )


class StopReplicaResponse(Message, api_key=5, kind="response", versions="0-4", flexible="2+"):
    """What became of the partitions."""

    error_code: Int16 = field(
        doc="Error of the whole request: 11 for an old controller, 77 for an old broker epoch.",
    )
    partition_errors: list[StopReplicaPartitionError] = field(
        doc="One entry per partition of the request, in any order; none with error 11 or 77.",
    )
