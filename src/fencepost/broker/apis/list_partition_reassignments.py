"""ListPartitionReassignments (key 46) v0: the moves of partitions that are under way (KIP-455).

Told by the active controller (`machines.controller.reassignments`). A controller that is not the
active one answers 41; when `timeout_ms` is over the answer is 7.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import decide_here, take_to_controller
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, WHOLE_REQUEST_ELEMENTS_MAX, handles
from fencepost.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest


@handles(
    ListPartitionReassignmentsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(BROKER,),
)
def handle(
    context: PendingRequest, request: ListPartitionReassignmentsRequest, *, forwarder: Forwarder
) -> None:
    """Ask the active controller."""
    take_to_controller(forwarder, context, request)


@handles(
    ListPartitionReassignmentsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(CONTROLLER,),
)
def handle_here(
    context: PendingRequest,
    request: ListPartitionReassignmentsRequest,
    *,
    controller: ControllerService,
) -> None:
    """Tell what moves, when all that was decided before is committed."""
    decide_here(controller, context, request)
