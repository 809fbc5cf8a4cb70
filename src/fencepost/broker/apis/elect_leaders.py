"""ElectLeaders (key 43) v0-2: have leaders elected now (KIP-183, KIP-460).

The rules are the controller's (`machines.controller.elections`). The answer comes when the
elections are committed. An error of the whole request stands in every partition, and from v1 on at
the top: 41 from a controller that is not the active one, 42 for an unknown type of election, 7 when
`timeout_ms` is over.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import (
    Refusal,
    decide_here,
    take_to_controller,
)
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, WHOLE_REQUEST_ELEMENTS_MAX, handles
from fencepost.wire.api.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from fencepost.wire.errors import ErrorCode

FIRST_VERSION_WITH_ERROR = 1


@handles(
    ElectLeadersRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(BROKER,),
)
def handle(context: PendingRequest, request: ElectLeadersRequest, *, forwarder: Forwarder) -> None:
    """Have the active controller decide."""
    take_to_controller(forwarder, context, request, _refusal_at(context.api_version))


@handles(
    ElectLeadersRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(CONTROLLER,),
)
def handle_here(
    context: PendingRequest, request: ElectLeadersRequest, *, controller: ControllerService
) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(controller, context, request, _refusal_at(context.api_version))


def _refusal_at(version: int) -> Refusal:
    """The same error for all partitions, and from v1 on at the top."""

    def refused(request: ElectLeadersRequest, error: ErrorCode) -> ElectLeadersResponse:
        return ElectLeadersResponse(
            error_code=error if version >= FIRST_VERSION_WITH_ERROR else ErrorCode.NONE,
            replica_election_results=[
                ReplicaElectionResult(
                    topic=topic.topic,
                    partition_result=[
                        PartitionResult(partition_id=index, error_code=error, error_message=None)
                        for index in topic.partitions
                    ],
                )
                for topic in request.topic_partitions or ()
            ],
        )

    return refused
