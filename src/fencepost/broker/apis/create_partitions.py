"""CreatePartitions (key 37) v0-3: add partitions to topics.

The rules are the controller's (`machines.controller.topics`). The answer comes when the new
partitions are committed and this node's metadata has them. While there is no active controller
every topic is 41.

Deviation: `timeout_ms` is not looked at; see `create_topics`.
"""

from __future__ import annotations

from typing import Any

from fencepost.broker.registry import RequestContext, handles
from fencepost.wire.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from fencepost.wire.errors import ErrorCode


@handles(CreatePartitionsRequest, versions="0-3")
def handle(context: RequestContext, request: CreatePartitionsRequest) -> None:
    """Let the controller decide; answer when that is committed."""

    def on_reply(error: ErrorCode, reply: Any) -> None:
        context.reply(reply if error is ErrorCode.NONE else _refused(request, error))

    context.node.forwarder.forward(context, request, on_reply)


def _refused(request: CreatePartitionsRequest, error: ErrorCode) -> CreatePartitionsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(name=name, error_code=int(error)) for name in names]
    )
