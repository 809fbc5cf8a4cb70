"""DeleteTopics (key 20) v1-6: remove topics, by name or (v6) by id.

The rules are the controller's (`machines.controller.topics`). The answer comes when the removal is
committed and this node has given up the partitions; their files are removed later, after
`file.delete.delay.ms`. With `delete.topic.enable=false` every topic is 73, before v3 42. A
controller that is not the active one answers 41 for every topic. `timeout_ms` is what it is for
`create_topics`: when it is over, every topic is 7.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import decide_here, take_to_controller
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, WHOLE_REQUEST_ELEMENTS_MAX, handles
from fencepost.wire.api.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from fencepost.wire.errors import ErrorCode

FIRST_VERSION_WITH_DELETION_DISABLED = 3


@handles(
    DeleteTopicsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(BROKER,),
)
def handle(
    context: PendingRequest,
    request: DeleteTopicsRequest,
    *,
    config: BrokerConfig,
    forwarder: Forwarder,
) -> DeleteTopicsResponse | None:
    """Have the active controller decide, unless topics are not to be deleted."""
    if not config.get("delete.topic.enable"):
        return _disabled(context, request)
    take_to_controller(forwarder, context, request, _refused)
    return None


@handles(
    DeleteTopicsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(CONTROLLER,),
)
def handle_here(
    context: PendingRequest,
    request: DeleteTopicsRequest,
    *,
    config: BrokerConfig,
    controller: ControllerService,
) -> DeleteTopicsResponse | None:
    """Let the controller decide; answer when that is committed."""
    if not config.get("delete.topic.enable"):
        return _disabled(context, request)
    decide_here(controller, context, request, _refused)
    return None


def _disabled(context: PendingRequest, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if context.api_version < FIRST_VERSION_WITH_DELETION_DISABLED:
        return _refused(request, ErrorCode.INVALID_REQUEST)
    return _refused(request, ErrorCode.TOPIC_DELETION_DISABLED)


def _refused(request: DeleteTopicsRequest, error: ErrorCode) -> DeleteTopicsResponse:
    meant = [(topic.name, topic.topic_id) for topic in request.topics]
    by_name = [DeletableTopicResult(name=name) for name in request.topic_names]
    results = by_name + [DeletableTopicResult(name=name, topic_id=id_) for name, id_ in meant]
    for result in results:
        result.error_code = int(error)
    return DeleteTopicsResponse(responses=results)
