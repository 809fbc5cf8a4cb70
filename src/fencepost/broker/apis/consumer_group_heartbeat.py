"""What a broker serves to members of consumer groups; `runtime.requests` decides.

Where the protocol is off, a consumer with `group.protocol=consumer` reads nothing. The answer is an
error without a text, as Kafka's, for which clients have their own; the log names the client, once,
and says what to do.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.net.log_limit import ClientWarnings
from fencepost.broker.net.registry import handles
from fencepost.runtime.clock import Clocks
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.consumer_group_heartbeat import consumer_group_heartbeat
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from fencepost.wire.errors import ErrorCode

NOT_OFFERED: Final = (
    "the consumer group protocol (group.protocol=consumer, KIP-848) is not offered: it takes "
    "group.version 1, and consumer in group.coordinator.rebalance.protocols; or set "
    "group.protocol=classic"
)
MAX_ELEMENTS: Final = 50_000
"""Topics that a member subscribes to and partitions that it owns, together."""


@handles(ConsumerGroupHeartbeatRequest, stores_text=True, max_elements=MAX_ELEMENTS)
def handle(
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
    *,
    warnings: ClientWarnings,
    access: Access,
    clocks: Clocks,
    groups: GroupCoordinators,
    metadata: ClusterMetadata,
) -> ConsumerGroupHeartbeatResponse | None:
    """Have it decided; tell the operator if the protocol is not offered."""
    answer = consumer_group_heartbeat(
        context, request, access=access, clocks=clocks, groups=groups, metadata=metadata
    )
    if answer is not None and answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        warnings.warn(context.client_id, context.client_host, f"reads nothing: {NOT_OFFERED}")
    return answer
