"""DescribeCluster (key 60) v0-2: the nodes of the cluster, for administration.

A broker describes the brokers, a controller the registered controllers (KIP-919) and which of them
is active. Controllers are 35 before the `metadata.version` with which they register.

Asked for controllers (v1+), a broker answers 114 MISMATCHED_ENDPOINT_TYPE: it does not give
clients addresses of controllers; a controller asked for brokers answers the same. An endpoint type
that does not exist is 115. Fenced brokers are
listed when asked for (v2) and marked as such. A controller answers only a client that may alter the
cluster: 31 to others, before all else.

The broker named as controller is this one while it is live; Kafka names any live broker.
"""

from __future__ import annotations

from fencepost.broker.cluster.cluster_view import (
    admin_broker_id,
    live_brokers,
)
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.machines.controller.config import METADATA_VERSION_FEATURE
from fencepost.machines.controller.features import CONTROLLER_REGISTRATION_LEVEL
from fencepost.runtime.requests.access import Access, cluster_operations
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import ALTER_CLUSTER
from fencepost.wire.api.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from fencepost.wire.errors import ErrorCode

ENDPOINT_BROKERS = 1
ENDPOINT_CONTROLLERS = 2
NAMES_OF_TYPES = {ENDPOINT_BROKERS: "broker", ENDPOINT_CONTROLLERS: "controller"}


@handles(DescribeClusterRequest, listeners=(CONTROLLER,))
def handle_at_controller(
    context: RequestContext,
    request: DescribeClusterRequest,
    *,
    access: Access,
    metadata: MetadataCache,
) -> DescribeClusterResponse:
    """Answer from the committed metadata, and from who leads the quorum."""
    if error := access.refusal(context, ALTER_CLUSTER):
        return DescribeClusterResponse(error_code=error)
    refusal = _wrong_type(request, ENDPOINT_CONTROLLERS)
    if refusal is not None:
        return refusal
    image = metadata.image
    if image.features.get(METADATA_VERSION_FEATURE, 0) < CONTROLLER_REGISTRATION_LEVEL:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            error_message="With this metadata.version controllers are not registered.",
        )
    return DescribeClusterResponse(
        endpoint_type=ENDPOINT_CONTROLLERS,
        cluster_id=metadata.cluster_id,
        controller_id=metadata.quorum_leader_id,
        brokers=[
            DescribeClusterBroker(broker_id=controller_id, host=listener.host, port=listener.port)
            for controller_id in sorted(image.controllers)
            for listener in image.controllers[controller_id].listeners
            if listener.name == context.listener_name
        ],
        cluster_authorized_operations=cluster_operations(
            access, context, is_asked_for=request.include_cluster_authorized_operations
        ),
    )


def _wrong_type(request: DescribeClusterRequest, expected: int) -> DescribeClusterResponse | None:
    """The refusal of a request for nodes that are not described here."""
    if request.endpoint_type == expected:
        return None
    if request.endpoint_type in NAMES_OF_TYPES:
        here, asked = NAMES_OF_TYPES[expected], NAMES_OF_TYPES[request.endpoint_type]
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message=f"The request was sent to an endpoint of type {here.upper()}, but we"
            f" wanted an endpoint of type {asked.upper()}",
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"Unsupported endpoint type {request.endpoint_type}",
    )


@handles(DescribeClusterRequest, listeners=(BROKER,))
def handle(
    context: RequestContext,
    request: DescribeClusterRequest,
    *,
    access: Access,
    metadata: MetadataCache,
    config: BrokerConfig,
) -> DescribeClusterResponse:
    """Answer from the committed metadata that this node has."""
    refusal = _wrong_type(request, ENDPOINT_BROKERS)
    if refusal is not None:
        return refusal
    image = metadata.image
    brokers = live_brokers(
        image, context.listener_name, include_fenced=request.include_fenced_brokers
    )
    return DescribeClusterResponse(
        cluster_id=metadata.cluster_id,
        controller_id=admin_broker_id(image, config.node_id),
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for broker, endpoint in brokers
        ],
        cluster_authorized_operations=cluster_operations(
            access, context, is_asked_for=request.include_cluster_authorized_operations
        ),
    )
