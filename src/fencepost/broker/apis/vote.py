"""Vote (key 52) v0-2: a candidate, or one that only asks whether it had a chance (v2, KIP-996).

Whether to grant it is the quorum machine's business (`machines.quorum.elections`), and the answer
leaves only when the vote is on the disk.
"""

from __future__ import annotations

from fencepost.broker.cluster.quorum_requests import ask_machine
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import CONTROLLER, handles
from fencepost.machines.driver import Driver
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.permissions import CLUSTER_ACTION
from fencepost.wire.api.vote import VoteRequest


@handles(VoteRequest, listeners=(CONTROLLER,))
def handle(
    context: PendingRequest,
    request: VoteRequest,
    *,
    access: Access,
    driver: Driver,
    metadata: MetadataHost,
) -> None:
    """Answer with this node's vote."""
    ask_machine(driver, metadata, access, CLUSTER_ACTION, context, request)
