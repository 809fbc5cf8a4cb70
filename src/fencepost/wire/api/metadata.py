"""Metadata (key 3): brokers, the controller, and who leads which partition.

Every client starts here and returns here whenever a partition moved. The answer is a snapshot of
what the answering broker has applied so far, which may be behind the controller; leader epochs
(v7) let a client refuse to go backwards.

* v0 asks for all topics with an empty list; v1 with a null list, and an empty one means none. v1
  adds racks (KIP-36), the controller and internal topics.
* v2 adds the cluster id (KIP-78), v3 the throttle time (KIP-124), v4 lets a client forbid
  auto-creation, v5 offline replicas (KIP-112), v6 throttles after the answer (KIP-219).
* v7 adds leader epochs (KIP-320), v8 authorized operations (KIP-430), v9 is flexible (KIP-482).
* v10 returns topic ids, v12 finds topics by id (KIP-516); v11 moves the cluster's authorized
  operations to DescribeCluster (KIP-700); v13 adds a top-level error (KIP-1102).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int16, Int32, String, Uuid


class MetadataRequestTopic(Struct):
    """A topic to look up, by name or, from v12 on, by id."""

    topic_id: Uuid = field(
        "10+",
        ignorable=True,
        doc="Id to look the topic up by, with a null name; zero when looking up by name.",
    )
    name: String | None = field(
        nullable="10+",
        doc="Name of the topic; null when it is looked up by id.",
    )


class MetadataRequest(Request["MetadataResponse"], api_key=3, versions="0-13", flexible="9+"):
    """Asks for the brokers and for some topics, all topics, or none."""

    topics: list[MetadataRequestTopic] | None = field(
        nullable="1+",
        doc="Topics to describe: null (v1+) is all, empty is none; at v0 empty is all.",
    )
    allow_auto_topic_creation: Bool = field(
        "4+",
        default=True,
        doc="Whether an unknown topic may be created, if the broker agrees.",
    )
    include_cluster_authorized_operations: Bool = field(
        "8-10",
        doc="Whether to fill in what the caller may do to the cluster.",
    )
    include_topic_authorized_operations: Bool = field(
        "8+",
        doc="Whether to fill in what the caller may do to each topic.",
    )


class MetadataResponseBroker(Struct):
    """A live broker and where this listener of it is reached."""

    node_id: Int32 = field(doc="Id of the broker.")
    host: String = field(doc="Host name or address a client can connect to.")
    port: Int32 = field(doc="TCP port that goes with `host`.")
    rack: String | None = field(
        "1+",
        default=None,
        ignorable=True,
        doc="Rack of the node, or null when it has none configured.",
    )


class MetadataResponsePartition(Struct):
    """Who holds a partition, and who leads it."""

    error_code: Int16 = field(
        doc=(
            "0, 5 (LEADER_NOT_AVAILABLE) without a leader, 72 (LISTENER_NOT_FOUND) when the "
            "leader has no such listener; 9 at v0 for a missing replica."
        ),
    )
    partition_index: Int32 = field(doc="Number of the partition.")
    leader_id: Int32 = field(doc="Broker that leads; -1 while there is none.")
    leader_epoch: Int32 = field(
        "7+",
        default=-1,
        ignorable=True,
        doc="Epoch of that leader; -1 when unknown. Fencing starts here (KIP-320).",
    )
    replica_nodes: list[Int32] = field(
        doc="Brokers that are to hold a copy, preferred leader first.",
    )
    isr_nodes: list[Int32] = field(doc="Brokers whose copies are in sync with the leader.")
    offline_replicas: list[Int32] = field(
        "5+",
        ignorable=True,
        doc="Replicas whose broker or log directory is down.",
    )


class MetadataResponseTopic(Struct):
    """A topic and its partitions, or why there are none."""

    error_code: Int16 = field(
        doc=(
            "0; 3 unknown name, 17 illegal name, 29 not authorized, 100 unknown id, 5 while the "
            "topic is being created; 37, 38 or 44 when it cannot be; 42 for a name and an id."
        ),
    )
    name: String | None = field(
        nullable="12+",
        doc="Name of the topic; null (v12+) when an id could not be resolved.",
    )
    topic_id: Uuid = field(
        "10+",
        ignorable=True,
        doc="Id of the topic; zero when it does not exist.",
    )
    is_internal: Bool = field(
        "1+",
        ignorable=True,
        doc="Whether the brokers own it, as they own `__consumer_offsets`.",
    )
    partitions: list[MetadataResponsePartition] = field(doc="The partitions, in no promised order.")
    topic_authorized_operations: Int32 = field(
        "8+",
        default=-0x80000000,
        doc="Bit set of what the caller may do; the least int32 when not asked for.",
    )


class MetadataResponse(Message, api_key=3, kind="response", versions="0-13", flexible="9+"):
    """The brokers, the controller, and the topics that were asked for."""

    throttle_time_ms: Int32 = field(
        "3+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    brokers: list[MetadataResponseBroker] = field(
        doc="Every unfenced broker that has the listener of this connection.",
    )
    cluster_id: String | None = field(
        "2+",
        default=None,
        ignorable=True,
        doc="Id of the cluster; null when there is none yet.",
    )
    controller_id: Int32 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc=(
            "Broker to send administrative requests to; KRaft names a random live one. -1 if none."
        ),
    )
    topics: list[MetadataResponseTopic] = field(
        doc="One entry per topic asked for, or all of them.",
    )
    cluster_authorized_operations: Int32 = field(
        "8-10",
        default=-0x80000000,
        doc="Bit set of what the caller may do; the least int32 when not asked for.",
    )
    error_code: Int16 = field(
        "13+",
        ignorable=True,
        doc="Error of the whole request: 129 tells the client to bootstrap again.",
    )
