"""Metadata records about nodes: brokers, controllers and the features they agreed on.

A broker's life in the log: `RegisterBrokerRecord` (fenced, with an epoch that is the record's own
offset), `BrokerRegistrationChangeRecord` whenever it is fenced, unfenced, shutting down or loses
a log directory, `UnregisterBrokerRecord` when an operator removes it. The epoch tells a life of
a broker from the next; a change that names another epoch belongs to a life that is over. KIP-631,
KIP-841, KIP-858, KIP-1066.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import Bool, Int8, Int16, Int32, Int64, String, UInt16, Uuid


class BrokerEndpoint(Struct):
    """One listener of a broker."""

    name: String = field(doc="Name of the listener.")
    host: String = field(doc="Host name or address a client can connect to.")
    port: UInt16 = field(doc="TCP port.")
    security_protocol: Int16 = field(doc="0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.")


class BrokerFeature(Struct):
    """The levels of one feature a broker can run."""

    name: String = field(doc="Name of the feature.")
    min_supported_version: Int16 = field(doc="Lowest level the broker can run.")
    max_supported_version: Int16 = field(doc="Highest level the broker can run.")


class RegisterBrokerRecord(Message, record_id=0, kind="metadata", versions="0-4", flexible="0+"):
    """A broker has started a new incarnation; replaces what was known of it.

    v1 adds controlled shutdown, v2 the ZooKeeper migration mark, v3 log directories (KIP-858), v4
    cordoned ones (KIP-1066).
    """

    broker_id: Int32 = field(doc="Id of the broker.")
    is_migrating_zk_broker: Bool = field(
        "2+",
        doc="Whether a ZooKeeper-mode broker registered; false in 4.x.",
    )
    incarnation_id: Uuid = field(
        doc="Random id of the process, by which a repeated registration is recognised.",
    )
    broker_epoch: Int64 = field(doc="Epoch of this life: the offset of this record.")
    end_points: list[BrokerEndpoint] = field(doc="Listeners of the broker.")
    features: list[BrokerFeature] = field(doc="Feature levels the broker can run.")
    rack: String | None = field(doc="Rack of the node, or null when it has none configured.")
    fenced: Bool = field(default=True, doc="Whether the broker must not lead yet.")
    in_controlled_shutdown: Bool = field(
        "1+",
        doc="Whether the broker is about to stop and gave up its leaderships.",
    )
    log_dirs: list[Uuid] = field(
        "3+",
        tag=0,
        doc="Ids of the log directories that are online, sorted.",
    )
    cordoned_log_dirs: list[Uuid] | None = field(
        "4+",
        tag=1,
        default=None,
        doc="Ids of directories that take no new replicas; null when not kept.",
    )


class UnregisterBrokerRecord(Message, record_id=1, kind="metadata", versions="0", flexible="0+"):
    """An operator has removed a broker from the cluster."""

    broker_id: Int32 = field(doc="Id of the broker.")
    broker_epoch: Int64 = field(doc="Epoch of the life that is removed.")


class FenceBrokerRecord(Message, record_id=7, kind="metadata", versions="0", flexible="0+"):
    """A broker must not lead any more. Written by early KRaft; now read only."""

    id: Int32 = field(doc="Id of the broker.")
    epoch: Int64 = field(doc="Epoch of the life that is fenced.")


class UnfenceBrokerRecord(Message, record_id=8, kind="metadata", versions="0", flexible="0+"):
    """A broker may lead. Written by early KRaft; now read only."""

    id: Int32 = field(doc="Id of the broker.")
    epoch: Int64 = field(doc="Epoch of the life that is unfenced.")


class BrokerRegistrationChangeRecord(
    Message, record_id=17, kind="metadata", versions="0-3", flexible="0+"
):
    """What has changed about a registered broker; fields at their default say nothing.

    v1 adds controlled shutdown (KIP-841), v2 log directories (KIP-858), v3 cordoned ones
    (KIP-1066).
    """

    broker_id: Int32 = field(doc="Id of the broker.")
    broker_epoch: Int64 = field(doc="Epoch of the life that changes.")
    fenced: Int8 = field(tag=0, doc="1 fenced now, -1 unfenced now, 0 as before.")
    in_controlled_shutdown: Int8 = field("1+", tag=1, doc="1 shutting down now, 0 as before.")
    log_dirs: list[Uuid] = field(
        "2+",
        tag=2,
        doc="The directories that are online now; empty when none went away.",
    )
    cordoned_log_dirs: list[Uuid] | None = field(
        "3+",
        tag=3,
        default=None,
        doc="The directories that are cordoned now; null as before.",
    )


class ControllerEndpoint(Struct):
    """One listener of a controller."""

    name: String = field(doc="Name of the listener.")
    host: String = field(doc="Host name or address a client can connect to.")
    port: UInt16 = field(doc="TCP port.")
    security_protocol: Int16 = field(doc="0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.")


class ControllerFeature(Struct):
    """The levels of one feature a controller can run."""

    name: String = field(doc="Name of the feature.")
    min_supported_version: Int16 = field(doc="Lowest level the controller can run.")
    max_supported_version: Int16 = field(doc="Highest level the controller can run.")


class RegisterControllerRecord(Message, record_id=27, kind="metadata", versions="0", flexible="0+"):
    """A controller has told where it listens and what it can run (KIP-919)."""

    controller_id: Int32 = field(doc="Node id of the controller.")
    incarnation_id: Uuid = field(doc="Random id of the process.")
    zk_migration_ready: Bool = field(doc="Whether it is ready to take over from ZooKeeper.")
    end_points: list[ControllerEndpoint] = field(doc="Listeners of the controller.")
    features: list[ControllerFeature] = field(doc="Feature levels the controller can run.")


class UnregisterControllerRecord(
    Message, record_id=29, kind="metadata", versions="0", flexible="0+"
):
    """An operator has removed a controller's registration."""

    controller_id: Int32 = field(doc="Node id of the controller.")


class FeatureLevelRecord(Message, record_id=12, kind="metadata", versions="0", flexible="0+"):
    """The cluster has agreed on the level of a feature (KIP-584); `metadata.version` is the first
    one.
    """

    name: String = field(doc="Name of the feature.")
    feature_level: Int16 = field(doc="The level; 0 switches the feature off.")


class ZkMigrationStateRecord(Message, record_id=21, kind="metadata", versions="0", flexible="0+"):
    """How far a migration from ZooKeeper has come (KIP-866). Kafka 4.x only reads it."""

    zk_migration_state: Int8 = field(doc="0 none, 1 pre-migration, 2 migration, 3 post-migration.")
