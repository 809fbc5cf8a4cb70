"""DescribeCluster (key 60) v0-2: the brokers, for administration.

Asked for controllers (v1+), a broker answers 114 MISMATCHED_ENDPOINT_TYPE: it does not give
clients addresses of controllers. An endpoint type that does not exist is 115. Fenced brokers are
listed when asked for (v2) and marked as such.

The broker named as controller is this one while it is live; Kafka names any live broker.
"""

from __future__ import annotations

from fencepost.broker.cluster_view import (
    CLUSTER_OPERATIONS,
    OPERATIONS_NOT_ASKED_FOR,
    admin_broker_id,
    live_brokers,
)
from fencepost.broker.registry import RequestContext, handles
from fencepost.wire.api.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from fencepost.wire.errors import ErrorCode

ENDPOINT_BROKERS = 1
ENDPOINT_CONTROLLERS = 2


@handles(DescribeClusterRequest, versions="0-2")
def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Answer from the committed metadata that this node has."""
    if request.endpoint_type == ENDPOINT_CONTROLLERS:
        return DescribeClusterResponse(
            error_code=int(ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            error_message="This is a broker's listener: it describes brokers, not controllers.",
        )
    if request.endpoint_type != ENDPOINT_BROKERS:
        return DescribeClusterResponse(
            error_code=int(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
            error_message=f"There is no endpoint type {request.endpoint_type}.",
        )
    node = context.node
    image = node.image
    brokers = live_brokers(
        image, context.listener_name, include_fenced=request.include_fenced_brokers
    )
    return DescribeClusterResponse(
        cluster_id=node.cluster_id,
        controller_id=admin_broker_id(image, node.config.node_id),
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
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else OPERATIONS_NOT_ASKED_FOR,
    )
