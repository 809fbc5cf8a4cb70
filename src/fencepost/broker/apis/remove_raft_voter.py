"""RemoveRaftVoter (key 81) v0: take a controller's vote away (KIP-853).

The leader's quorum machine decides, and answers when the new voter set is committed. A controller
that does not lead says so; a broker takes the request to the leader.
"""

from __future__ import annotations

from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.cluster.quorum_requests import ask_machine, forward
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.machines.driver import Driver
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.permissions import ALTER_CLUSTER
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from fencepost.wire.errors import ErrorCode


@handles(RemoveRaftVoterRequest, listeners=(CONTROLLER,))
def handle(
    context: PendingRequest,
    request: RemoveRaftVoterRequest,
    *,
    access: Access,
    driver: Driver,
    metadata: MetadataHost,
) -> None:
    """Have this node's quorum machine decide."""
    ask_machine(driver, metadata, access, ALTER_CLUSTER, context, request)


@handles(RemoveRaftVoterRequest, listeners=(BROKER,))
def handle_for_client(
    context: PendingRequest, request: RemoveRaftVoterRequest, *, forwarder: Forwarder
) -> None:
    """Have the leader decide."""
    forward(forwarder, context, request, _refusal)


def _refusal(error: ErrorCode) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=error)
