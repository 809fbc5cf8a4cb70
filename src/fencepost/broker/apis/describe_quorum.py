"""DescribeQuorum (key 55) v0-2: who leads, who votes, who follows, and how far each of them is.

Only the leader knows. A controller that does not lead says so, with the leader it knows; a broker
takes the question to the leader.
"""

from __future__ import annotations

from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.cluster.quorum_requests import ask_machine, forward
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.machines.driver import Driver
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.permissions import DESCRIBE_CLUSTER
from fencepost.wire.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from fencepost.wire.errors import ErrorCode


@handles(DescribeQuorumRequest, listeners=(CONTROLLER,))
def handle(
    context: PendingRequest,
    request: DescribeQuorumRequest,
    *,
    access: Access,
    driver: Driver,
    metadata: MetadataHost,
) -> None:
    """Answer from the quorum machine."""
    ask_machine(driver, metadata, access, DESCRIBE_CLUSTER, context, request)


@handles(DescribeQuorumRequest, listeners=(BROKER,))
def handle_for_client(
    context: PendingRequest, request: DescribeQuorumRequest, *, forwarder: Forwarder
) -> None:
    """Have the leader answer."""
    forward(forwarder, context, request, _refusal)


def _refusal(error: ErrorCode) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error)
