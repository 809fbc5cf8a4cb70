"""CreateTopics (key 19) v2-7: make topics, with counts or with a placement of every replica.

The rules are the controller's (`machines.controller.topics`); this is its door. Topics succeed or
fail alone, and the answer comes when those that succeed are committed and, if the controller is in
this process, this node's metadata has them. A controller that is not the active one answers 41 for
every topic.

A broker looks for the active controller and waits for its answer as long as `timeout_ms` says, at
most a minute. Then it answers 7 for every topic: they may exist, may come to be later, or not.
Without time (0 or less) the answer is 7 at once, on either listener, and nothing happens.

A request that comes to more than 8 MiB in the metadata log is refused with 44 for every topic, and
so is one for more than 10,000 partitions or for more than 10,000 records, which every topic, every
config and every partition is. The bytes are counted for all requests that change topics and
configs, the records for those that add partitions, elect leaders, or change configs and quotas.

From v5 on the answer has the topic's configs in force, those of the controller's node under its own
ones.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import decide_here, take_to_controller
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, WHOLE_REQUEST_ELEMENTS_MAX, handles
from fencepost.wire.api.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from fencepost.wire.errors import ErrorCode


@handles(
    CreateTopicsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(BROKER,),
)
def handle(context: PendingRequest, request: CreateTopicsRequest, *, forwarder: Forwarder) -> None:
    """Have the active controller decide."""
    take_to_controller(forwarder, context, request, _refused)


@handles(
    CreateTopicsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(CONTROLLER,),
)
def handle_here(
    context: PendingRequest, request: CreateTopicsRequest, *, controller: ControllerService
) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(controller, context, request, _refused)


def _refused(request: CreateTopicsRequest, error: ErrorCode) -> CreateTopicsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=name, error_code=int(error), error_message=None)
            for name in names
        ]
    )
