"""ApiVersions (key 18): which requests, at which versions, the other side understands.

The first request on a connection, sent before the client knows anything about the server. Two
rules follow from that. The response always travels under response header v0, at every version, so
that a client can read it without knowing what it asked for. A server that does not know the
requested version answers with a v0 body, error 35 (UNSUPPORTED_VERSION) and at least the range of
ApiVersions itself, instead of disconnecting (KIP-511).

* v1 adds the throttle time, v2 moves throttling to after the answer (KIP-219).
* v3 is flexible, carries the client's name and version (KIP-511) and the features (KIP-584).
* v4 lets a feature have minimum 0; servers must leave such features out of v3 (KIP-1022).
* v5 lets a client say whom it believes to be talking to, so that a stale address is found out
  (KIP-1242).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int16, Int32, Int64, String


class ApiVersionsRequest(Request["ApiVersionsResponse"], api_key=18, versions="0-5", flexible="3+"):
    """Asks for the version ranges; no field before v3."""

    client_software_name: String = field(
        "3+",
        ignorable=True,
        doc="Name of the client library; letters, digits, dots and dashes, or error 42.",
    )
    client_software_version: String = field(
        "3+",
        ignorable=True,
        doc="Version of the client library; same alphabet as the name.",
    )
    cluster_id: String | None = field(
        "5+",
        default=None,
        ignorable=True,
        doc="Cluster the client believes this node to belong to; null when it does not know.",
    )
    node_id: Int32 = field(
        "5+",
        default=-1,
        ignorable=True,
        doc="Node the client believes this to be; -1 on a bootstrap connection.",
    )


class ApiVersion(Struct):
    """One API and the versions of it that may be sent."""

    api_key: Int16 = field(doc="Number of the API.")
    min_version: Int16 = field(doc="Lowest version that is served, inclusive.")
    max_version: Int16 = field(doc="Highest version that is served, inclusive.")


class SupportedFeatureKey(Struct):
    """A feature this node could run, whatever the cluster has agreed on."""

    name: String = field("3+", doc="Feature name, such as `metadata.version`.")
    min_version: Int16 = field("3+", doc="Lowest level this node can run; 0 only from v4 on.")
    max_version: Int16 = field("3+", doc="Highest level this node can run.")


class FinalizedFeatureKey(Struct):
    """A feature level on which the whole cluster has agreed."""

    name: String = field("3+", doc="Feature name, such as `metadata.version`.")
    max_version_level: Int16 = field("3+", doc="The agreed level.")
    min_version_level: Int16 = field(
        "3+",
        doc="Lower bound that goes with it; equal to the level in KRaft clusters.",
    )


class ApiVersionsResponse(Message, api_key=18, kind="response", versions="0-5", flexible="3+"):
    """The version ranges of every API on this listener, and the cluster's features."""

    error_code: Int16 = field(
        doc=(
            "0; 35 for an unknown version of this request; 42 for a malformed client name; 129 "
            "(v5) when the client reached another node than it meant to."
        ),
    )
    api_keys: list[ApiVersion] = field(
        doc="The APIs of this listener; a missing key is not served.",
    )
    throttle_time_ms: Int32 = field(
        "1+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    supported_features: list[SupportedFeatureKey] = field(
        "3+",
        tag=0,
        ignorable=True,
        doc="Features this node could run.",
    )
    finalized_features_epoch: Int64 = field(
        "3+",
        tag=1,
        default=-1,
        ignorable=True,
        doc="Metadata offset of the finalized features; -1 when unknown.",
    )
    finalized_features: list[FinalizedFeatureKey] = field(
        "3+",
        tag=2,
        ignorable=True,
        doc="Feature levels in force in the cluster.",
    )
    zk_migration_ready: Bool = field(
        "3+",
        tag=3,
        ignorable=True,
        doc="Set by a KRaft controller that can take over from ZooKeeper; always false in 4.x.",
    )
