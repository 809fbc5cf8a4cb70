"""AlterPartitionReassignments (key 45) v0-1: move partitions to other brokers (KIP-455, KIP-860).

The rules are the controller's (`machines.controller.reassignments`). The answer comes when the
moves are recorded; ListPartitionReassignments tells when they are over. A controller that is not
the active one answers 41; when `timeout_ms` is over the answer is 7.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import decide_here, take_to_controller
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, WHOLE_REQUEST_ELEMENTS_MAX, handles
from fencepost.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from fencepost.wire.errors import ErrorCode


@handles(
    AlterPartitionReassignmentsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(BROKER,),
)
def handle(
    context: PendingRequest, request: AlterPartitionReassignmentsRequest, *, forwarder: Forwarder
) -> None:
    """Have the active controller decide."""
    take_to_controller(forwarder, context, request, _refused)


@handles(
    AlterPartitionReassignmentsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(CONTROLLER,),
)
def handle_here(
    context: PendingRequest,
    request: AlterPartitionReassignmentsRequest,
    *,
    controller: ControllerService,
) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(controller, context, request, _refused)


def _refused(
    request: AlterPartitionReassignmentsRequest, error: ErrorCode
) -> AlterPartitionReassignmentsResponse:
    """The error at the top, and in every row, as Kafka has it."""
    return AlterPartitionReassignmentsResponse(
        error_code=int(error),
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=one.partition_index,
                        error_code=int(error),
                        error_message=None,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
