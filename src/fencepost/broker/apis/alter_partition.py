"""AlterPartition (key 56) v2-3: leaders of partitions ask for other in-sync sets.

The rules are the controller's (`machines.controller.partitions`, KIP-497). A controller that is not
the active one answers 41.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import decide_here
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import CONTROLLER, handles
from fencepost.wire.api.alter_partition import AlterPartitionRequest


@handles(AlterPartitionRequest, listeners=(CONTROLLER,))
def handle(
    context: PendingRequest, request: AlterPartitionRequest, *, controller: ControllerService
) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(controller, context, request)
