"""AssignReplicasToDirs (key 73) v0: a broker says in which directories it keeps replicas.

The rules are the controller's (`machines.controller.directories`, KIP-858). A controller that is
not the active one answers 41.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import decide_here
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import CONTROLLER, handles
from fencepost.wire.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest


@handles(AssignReplicasToDirsRequest, listeners=(CONTROLLER,))
def handle(
    context: PendingRequest, request: AssignReplicasToDirsRequest, *, controller: ControllerService
) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(controller, context, request)
