"""BeginQuorumEpoch (key 53) v0-1: a leader makes itself known to a voter that does not fetch."""

from __future__ import annotations

from fencepost.broker.cluster.quorum_requests import ask_machine
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import CONTROLLER, handles
from fencepost.machines.driver import Driver
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.permissions import CLUSTER_ACTION
from fencepost.wire.api.begin_quorum_epoch import BeginQuorumEpochRequest


@handles(BeginQuorumEpochRequest, listeners=(CONTROLLER,))
def handle(
    context: PendingRequest,
    request: BeginQuorumEpochRequest,
    *,
    access: Access,
    driver: Driver,
    metadata: MetadataHost,
) -> None:
    """Take note of the leader, and answer with the leader that this node follows."""
    ask_machine(driver, metadata, access, CLUSTER_ACTION, context, request)
