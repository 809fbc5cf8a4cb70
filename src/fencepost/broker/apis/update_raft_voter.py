"""UpdateRaftVoter (key 82) v0: a voter says where it is reached and what it can run (KIP-853)."""

from __future__ import annotations

from fencepost.broker.cluster.quorum_requests import ask_machine
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import CONTROLLER, handles
from fencepost.machines.driver import Driver
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.permissions import CLUSTER_ACTION
from fencepost.wire.api.update_raft_voter import UpdateRaftVoterRequest


@handles(UpdateRaftVoterRequest, listeners=(CONTROLLER,), stores_text=True)
def handle(
    context: PendingRequest,
    request: UpdateRaftVoterRequest,
    *,
    access: Access,
    driver: Driver,
    metadata: MetadataHost,
) -> None:
    """Have this node's quorum machine decide."""
    ask_machine(driver, metadata, access, CLUSTER_ACTION, context, request)
