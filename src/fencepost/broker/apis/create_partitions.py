"""CreatePartitions (key 37) v0-3: add partitions to topics.

The rules are the controller's (`machines.controller.topics`). The answer comes when the new
partitions are committed and, with the controller in this process, this node's metadata has them. A
controller that is not the active one answers 41 for every topic. `timeout_ms` is what it is for
`create_topics`: when it is over, every topic is 7.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import decide_here, take_to_controller
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, WHOLE_REQUEST_ELEMENTS_MAX, handles
from fencepost.wire.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from fencepost.wire.errors import ErrorCode


@handles(
    CreatePartitionsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(BROKER,),
)
def handle(
    context: PendingRequest, request: CreatePartitionsRequest, *, forwarder: Forwarder
) -> None:
    """Have the active controller decide."""
    take_to_controller(forwarder, context, request, _refused)


@handles(
    CreatePartitionsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(CONTROLLER,),
)
def handle_here(
    context: PendingRequest, request: CreatePartitionsRequest, *, controller: ControllerService
) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(controller, context, request, _refused)


def _refused(request: CreatePartitionsRequest, error: ErrorCode) -> CreatePartitionsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(name=name, error_code=int(error)) for name in names]
    )
