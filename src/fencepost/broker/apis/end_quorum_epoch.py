"""EndQuorumEpoch (key 54) v0-1: a leader resigns and says who had better stand next."""

from __future__ import annotations

from fencepost.broker.cluster.quorum_requests import ask_machine
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import CONTROLLER, handles
from fencepost.machines.driver import Driver
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.permissions import CLUSTER_ACTION
from fencepost.wire.api.end_quorum_epoch import EndQuorumEpochRequest


@handles(EndQuorumEpochRequest, listeners=(CONTROLLER,))
def handle(
    context: PendingRequest,
    request: EndQuorumEpochRequest,
    *,
    access: Access,
    driver: Driver,
    metadata: MetadataHost,
) -> None:
    """Take note, and stand for election when it is this node's turn."""
    ask_machine(driver, metadata, access, CLUSTER_ACTION, context, request)
