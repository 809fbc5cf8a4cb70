"""DescribeCluster (key 60): the nodes of the cluster, for administration.

What Metadata said about the cluster, without topics (KIP-700). v1 asks a controller for
controllers (KIP-919), v2 can list fenced brokers (KIP-1073).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int8, Int16, Int32, String


class DescribeClusterRequest(
    Request["DescribeClusterResponse"], api_key=60, versions="0-2", flexible="0+"
):
    """Asks for the cluster's nodes."""

    include_cluster_authorized_operations: Bool = field(
        doc="Whether to fill in what the caller may do to the cluster.",
    )
    endpoint_type: Int8 = field(
        "1+",
        default=1,
        doc="1 brokers, 2 controllers; error 114 or 115 at the wrong kind of node.",
    )
    include_fenced_brokers: Bool = field(
        "2+",
        doc="Whether to list brokers that are registered but fenced.",
    )


class DescribeClusterBroker(Struct):
    """A node and where it is reached."""

    broker_id: Int32 = field(doc="Id of the node.")
    host: String = field(doc="Host name or address a client can connect to.")
    port: Int32 = field(doc="TCP port that goes with `host`.")
    rack: String | None = field(
        default=None,
        doc="Rack of the node, or null when it has none configured.",
    )
    is_fenced: Bool = field("2+", doc="Whether it is fenced.")


class DescribeClusterResponse(Message, api_key=60, kind="response", versions="0-2", flexible="0+"):
    """The cluster's nodes."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(doc="0, or why nothing is described.")
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    endpoint_type: Int8 = field(
        "1+",
        default=1,
        doc="1 when brokers are listed, 2 for controllers.",
    )
    cluster_id: String = field(doc="Id of the cluster.")
    controller_id: Int32 = field(
        default=-1,
        doc=(
            "Broker to send administrative requests to, or the active controller when controllers "
            "were asked for; -1 if none."
        ),
    )
    brokers: list[DescribeClusterBroker] = field(doc="The nodes.")
    cluster_authorized_operations: Int32 = field(
        default=-0x80000000,
        doc="Bit set of what the caller may do; the least int32 when not asked for.",
    )
