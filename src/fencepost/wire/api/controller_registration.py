"""ControllerRegistration (key 70): a controller says what it is and what it can run (KIP-919).

Every controller sends it to the active controller when it starts, and again when the metadata
log shows its registration missing or that of an earlier process. It becomes a
RegisterControllerRecord, by which clients find the controllers and features are not raised
beyond what every registered controller can run. metadata.version 3.7 or later, else error 35.
There is no heartbeat; the registration stays until UnregisterController. The request needs
CLUSTER_ACTION.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int16, Int32, String, UInt16, Uuid


class Listener(Struct):
    """One listener of the controller."""

    name: String = field(doc="Name of the listener.")
    host: String = field(doc="Host name or address a client can connect to.")
    port: UInt16 = field(doc="TCP port that goes with `host`.")
    security_protocol: Int16 = field(doc="0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.")


class Feature(Struct):
    """The levels of one feature the controller can run."""

    name: String = field(doc="Name of the feature.")
    min_supported_version: Int16 = field(doc="Lowest level the controller can run.")
    max_supported_version: Int16 = field(doc="Highest level the controller can run.")


class ControllerRegistrationRequest(
    Request["ControllerRegistrationResponse"], api_key=70, versions="0", flexible="0+"
):
    """Registers a controller with the active controller."""

    controller_id: Int32 = field(doc="Node id of the controller.")
    incarnation_id: Uuid = field(
        doc="Random id of this process, by which it knows its own registration in the log.",
    )
    zk_migration_ready: Bool = field(
        doc="Whether it could migrate a cluster from ZooKeeper; never in 4.x.",
    )
    listeners: list[Listener] = field(doc="All its listeners.")
    features: list[Feature] = field(doc="All features it knows.")


class ControllerRegistrationResponse(
    Message, api_key=70, kind="response", versions="0", flexible="0+"
):
    """Whether the controller is registered."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc="0; 31, 35 when metadata.version is too old, 41 not the active controller.",
    )
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
