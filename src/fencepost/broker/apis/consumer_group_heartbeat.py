"""ConsumerGroupHeartbeat (key 68) v0-1: refused, since groups of KIP-848 are not offered.

It is answered with UNSUPPORTED_VERSION, as Kafka does where `group.version` is 0, before it asks
what the client may do; and so it is in the list of ApiVersions. Were it not there, a consumer with
`group.protocol=consumer` could send nothing at all: librdkafka (2.16) then looks for a coordinator
for ever and tells nobody, and the broker cannot know. This way librdkafka and the Java client end
with an error that says what to do, and the log names the client, once.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.net.log_limit import ClientWarnings
from fencepost.broker.net.registry import handles
from fencepost.runtime.requests.context import RequestContext
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from fencepost.wire.errors import ErrorCode

NOT_OFFERED: Final = (
    "the consumer group protocol (group.protocol=consumer, KIP-848) is not offered; "
    "set group.protocol=classic"
)


@handles(ConsumerGroupHeartbeatRequest)
def handle(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest, *, warnings: ClientWarnings
) -> ConsumerGroupHeartbeatResponse:
    """Refuse, and tell the operator."""
    warnings.warn(context.client_id, context.client_host, f"reads nothing: {NOT_OFFERED}")
    return ConsumerGroupHeartbeatResponse(
        error_code=int(ErrorCode.UNSUPPORTED_VERSION), error_message=NOT_OFFERED
    )
