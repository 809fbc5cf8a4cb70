"""LeaderAndIsr (key 4): a ZooKeeper cluster's controller tells a broker what to lead and follow.

It went to every broker with a replica whenever leader, ISR or replicas of a partition changed, and
to a starting broker with all its partitions. KRaft brokers learn the same from the metadata log, so
no broker since 4.0 serves it; 3.x did, for KRaft controllers too while a cluster was migrating.

* v1 adds `is_new` and error 56 (KIP-112). v2 adds the broker's epoch and groups partitions by
  topic (KIP-380). v3 adds the replicas a reassignment moves (KIP-455).
* v4 is flexible (KIP-482). v5 adds topic ids and `type`, and the answer has ids instead of names
  (KIP-516). v6 adds the recovery state (KIP-704), v7 the mark of a KRaft controller (KIP-866).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int8, Int16, Int32, Int64, String, Uuid


class LeaderAndIsrPartitionState(Struct):
    """What a partition is to be like."""

    topic_name: String = field(
        "0-1",
        ignorable=True,
        doc="Name of the topic, up to v1; later it is in the topic's entry.",
    )
    partition_index: Int32 = field(doc="Number of the partition.")
    controller_epoch: Int32 = field(doc="Epoch of the controller that chose this leader and ISR.")
    leader: Int32 = field(
        doc="Id of the leading broker, -1 for none; the receiver leads if it is its own.",
    )
    leader_epoch: Int32 = field(
        doc="Epoch of the leader; one below the receiver's own is error 11 for the partition.",
    )
    isr: list[Int32] = field(doc="Ids of the brokers in sync.")
    partition_epoch: Int32 = field(
        doc="Version of the partition's state in ZooKeeper, which every change of it raises by 1.",
    )
    replicas: list[Int32] = field(
        doc=(
            "Ids of all brokers with a replica, preferred leader first; error 3 without the "
            "receiver."
        ),
    )
    adding_replicas: list[Int32] = field(
        "3+",
        ignorable=True,
        doc="Those of `replicas` a reassignment brings in; empty when there is none.",
    )
    removing_replicas: list[Int32] = field(
        "3+",
        ignorable=True,
        doc="Those of `replicas` a reassignment takes away when it ends; empty when there is none.",
    )
    is_new: Bool = field(
        "1+",
        default=False,
        ignorable=True,
        doc=(
            "Whether the replica was just made. If not, and one of the broker's log directories is "
            "offline, a log that cannot be found is error 56 and no new one is started."
        ),
    )
    leader_recovery_state: Int8 = field(
        "6+",
        default=0,
        doc="1 while the leader recovers from an unclean election, else 0.",
    )


class LeaderAndIsrTopicState(Struct):
    """The partitions of one topic, from v2 on."""

    topic_name: String = field("2+", doc="Name of the topic.")
    topic_id: Uuid = field(
        "5+",
        ignorable=True,
        doc="Id of the topic, zero while it has none; another than the log's is error 103.",
    )
    partition_states: list[LeaderAndIsrPartitionState] = field("2+", doc="One entry per partition.")


class LeaderAndIsrLiveLeader(Struct):
    """A broker to follow and where to reach it."""

    broker_id: Int32 = field(doc="Id of the broker.")
    host_name: String = field(doc="Host of its listener for other brokers.")
    port: Int32 = field(doc="TCP port of that listener.")


class LeaderAndIsrRequest(
    Request["LeaderAndIsrResponse"], api_key=4, versions="0-7", flexible="4+"
):
    """Makes a broker the leader or a follower of partitions."""

    controller_id: Int32 = field(doc="Id of the controller that sends this.")
    is_kraft_controller: Bool = field(
        "7+",
        default=False,
        name="isKRaftController",
        doc="Whether that is a KRaft controller that migrates a ZooKeeper cluster.",
    )
    controller_epoch: Int32 = field(
        doc="Epoch of that controller; one below the highest the broker has seen is error 11.",
    )
    broker_epoch: Int64 = field(
        "2+",
        default=-1,
        ignorable=True,
        doc=(
            "Registration epoch of the receiver; an older one, meant for its incarnation before a "
            "restart, is error 77. -1 is not checked."
        ),
    )
    type: Int8 = field(
        "5+",
        doc=(
            "0 unknown, which ZooKeeper controllers send, 1 incremental, 2 full: the broker may "
            "make strays of replicas that are not named."
        ),
    )
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field(
        "0-1",
        doc="The partitions, up to v1, each with the name of its topic.",
    )
    topic_states: list[LeaderAndIsrTopicState] = field(
        "2+",
        doc="The partitions, from v2 on, by topic.",
    )
    live_leaders: list[LeaderAndIsrLiveLeader] = field(
        doc="Addresses of the leaders named in the states that are alive.",
    )


class LeaderAndIsrPartitionError(Struct):
    """What became of one partition."""

    topic_name: String = field(
        "0-4",
        ignorable=True,
        doc="Name of the topic, up to v4; later its id is in the topic's entry.",
    )
    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(
        doc=(
            "0, or why it stays as it was: 3 no replica here, 11 an older leader epoch, 56 its log "
            "directory is offline (v1+), 103 another topic id."
        ),
    )


class LeaderAndIsrTopicError(Struct):
    """What became of the partitions of one topic, from v5 on."""

    topic_id: Uuid = field("5+", doc="Id of the topic.")
    partition_errors: list[LeaderAndIsrPartitionError] = field(
        "5+",
        doc="One entry per partition of the request.",
    )


class LeaderAndIsrResponse(Message, api_key=4, kind="response", versions="0-7", flexible="4+"):
    """What became of the partitions."""

    error_code: Int16 = field(
        doc="Error of the whole request: 11 for an old controller, 77 for an old broker epoch.",
    )
    partition_errors: list[LeaderAndIsrPartitionError] = field(
        "0-4",
        doc="One entry per partition of the request, up to v4.",
    )
    topics: list[LeaderAndIsrTopicError] = field(
        "5+",
        doc="One entry per topic of the request, from v5 on.",
    )
