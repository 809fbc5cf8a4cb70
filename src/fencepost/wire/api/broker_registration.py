"""BrokerRegistration (key 62): a broker registers with a KRaft cluster (KIP-631).

v1 marks ZooKeeper migration (KIP-866), v2 adds log directories (KIP-858), v3 the epoch of the
last clean shutdown (KIP-966), v4 allows features with minimum 0 (KIP-1022).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int16, Int32, Int64, String, UInt16, Uuid


class Listener(Struct):
    """One listener of the broker."""

    name: String = field(doc="Name of the listener.")
    host: String = field(doc="Host name or address a client can connect to.")
    port: UInt16 = field(doc="TCP port.")
    security_protocol: Int16 = field(doc="0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.")


class Feature(Struct):
    """The levels of one feature the broker can run."""

    name: String = field(doc="Name of the feature.")
    min_supported_version: Int16 = field(doc="Lowest level the broker can run.")
    max_supported_version: Int16 = field(doc="Highest level the broker can run.")


class BrokerRegistrationRequest(
    Request["BrokerRegistrationResponse"], api_key=62, versions="0-4", flexible="0+"
):
    """Registers a broker with the active controller."""

    broker_id: Int32 = field(doc="Id of the broker.")
    cluster_id: String = field(
        doc="Id of the cluster its disk belongs to; error 104 if it is another.",
    )
    incarnation_id: Uuid = field(
        doc="Random id of this process; error 101 while another one has not been fenced.",
    )
    listeners: list[Listener] = field(doc="Its listeners.")
    features: list[Feature] = field(doc="Feature levels it can run.")
    rack: String | None = field(doc="Rack of the broker, or null.")
    is_migrating_zk_broker: Bool = field(
        "1+",
        doc="Whether it still runs with ZooKeeper; refused by 4.x.",
    )
    log_dirs: list[Uuid] = field(
        "2+",
        ignorable=True,
        doc="Ids of its log directories that are online.",
    )
    previous_broker_epoch: Int64 = field(
        "3+",
        default=-1,
        ignorable=True,
        doc="Broker epoch of its last clean shutdown; -1 if there was none.",
    )


class BrokerRegistrationResponse(
    Message, api_key=62, kind="response", versions="0-4", flexible="0+"
):
    """The broker epoch of the registration."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(doc="0, or why it was not registered.")
    broker_epoch: Int64 = field(default=-1, doc="Registration epoch; -1 on an error.")
