"""UpdateMetadata (key 6): a ZooKeeper cluster's controller tells brokers what the cluster is like.

It fills the cache that Metadata requests are answered from: leaders and replicas of partitions, and
the endpoints of live brokers. Every broker got it, unlike LeaderAndIsr. KRaft brokers read the
metadata log instead, and no broker since 4.0 serves this.

* v1 lets a broker have several endpoints (KIP-2), v2 adds its rack (KIP-36), v3 names listeners
  (KIP-103), v4 adds offline replicas (KIP-112).
* v5 adds the broker's epoch and groups partitions by topic (KIP-380), v6 is flexible (KIP-482), v7
  adds topic ids (KIP-516), v8 marks KRaft controllers and full updates (KIP-866).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int8, Int16, Int32, Int64, String, Uuid


class UpdateMetadataPartitionState(Struct):
    """What a partition is like now."""

    topic_name: String = field(
        "0-4",
        ignorable=True,
        doc="Name of the topic, up to v4; later it is in the topic's entry.",
    )
    partition_index: Int32 = field(doc="Number of the partition.")
    controller_epoch: Int32 = field(doc="Epoch of the controller that chose this leader and ISR.")
    leader: Int32 = field(
        doc=(
            "Id of the leading broker; -1 for none, -2 to forget a partition that is being deleted."
        ),
    )
    leader_epoch: Int32 = field(doc="Epoch of the leader.")
    isr: list[Int32] = field(doc="Ids of the brokers in sync.")
    zk_version: Int32 = field(
        doc="Version of the partition's state in ZooKeeper, which every change of it raises by 1.",
    )
    replicas: list[Int32] = field(
        doc="Ids of all brokers with a replica, preferred leader first.",
    )
    offline_replicas: list[Int32] = field(
        "4+",
        ignorable=True,
        doc="Those of `replicas` that are on a dead broker or in a failed log directory.",
    )


class UpdateMetadataTopicState(Struct):
    """The partitions of one topic, from v5 on."""

    topic_name: String = field("5+", doc="Name of the topic.")
    topic_id: Uuid = field(
        "7+",
        ignorable=True,
        doc="Id of the topic; zero while it has none.",
    )
    partition_states: list[UpdateMetadataPartitionState] = field(
        "5+",
        doc="One entry per partition that changed.",
    )


class UpdateMetadataEndpoint(Struct):
    """An address of a broker."""

    port: Int32 = field("1+", doc="TCP port.")
    host: String = field("1+", doc="Host name or address a client can connect to.")
    listener: String = field(
        "3+",
        ignorable=True,
        doc="Name of the listener; up to v2 it is the name of the security protocol.",
    )
    security_protocol: Int16 = field(
        "1+",
        doc="0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.",
    )


class UpdateMetadataBroker(Struct):
    """A broker that is alive."""

    id: Int32 = field(doc="Id of the broker.")
    v0_host: String = field("0", ignorable=True, doc="Its host, at v0 only.")
    v0_port: Int32 = field("0", ignorable=True, doc="Its TCP port, at v0 only; it is PLAINTEXT.")
    endpoints: list[UpdateMetadataEndpoint] = field(
        "1+",
        ignorable=True,
        doc="Its addresses, one per listener, from v1 on.",
    )
    rack: String | None = field(
        "2+",
        nullable="0+",
        ignorable=True,
        doc="Its rack, or null.",
    )


class UpdateMetadataRequest(
    Request["UpdateMetadataResponse"], api_key=6, versions="0-8", flexible="6+"
):
    """Changes what a broker knows of the cluster."""

    controller_id: Int32 = field(doc="Id of the controller that sends this.")
    is_kraft_controller: Bool = field(
        "8+",
        default=False,
        name="isKRaftController",
        doc="Whether that is a KRaft controller that migrates a ZooKeeper cluster.",
    )
    type: Int8 = field(
        "8+",
        tag=0,
        default=0,
        doc=(
            "0 unknown, which ZooKeeper controllers send, 1 incremental, 2 full: topics that are "
            "not named are gone."
        ),
    )
    controller_epoch: Int32 = field(
        doc="Epoch of that controller; one below the highest the broker has seen is error 11.",
    )
    broker_epoch: Int64 = field(
        "5+",
        default=-1,
        ignorable=True,
        doc=(
            "Registration epoch of the receiver; an older one, meant for its incarnation before a "
            "restart, is error 77. -1 is not checked."
        ),
    )
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field(
        "0-4",
        doc="Partitions that changed, up to v4, each with the name of its topic.",
    )
    topic_states: list[UpdateMetadataTopicState] = field(
        "5+",
        doc="Partitions that changed, from v5 on, by topic.",
    )
    live_brokers: list[UpdateMetadataBroker] = field(
        doc="All brokers that are alive; a broker that is not here is dead.",
    )


class UpdateMetadataResponse(Message, api_key=6, kind="response", versions="0-8", flexible="6+"):
    """Whether the update was taken."""

    error_code: Int16 = field(doc="0; 11 for an old controller, 77 for an old broker epoch.")
