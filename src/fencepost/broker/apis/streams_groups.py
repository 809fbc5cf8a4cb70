"""What a broker serves to members of streams groups, and to administrators of these;
`runtime.requests` decides.

Where the protocol is off, an application with `group.protocol=streams` does nothing: the answer is
an error without a text, as Kafka's, and the log names the client, once, and says what to do.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.net.log_limit import ClientWarnings
from fencepost.broker.net.registry import handles
from fencepost.runtime.clock import Clocks
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata, StreamsTopicCreation
from fencepost.runtime.requests.streams_group_describe import streams_group_describe
from fencepost.runtime.requests.streams_group_heartbeat import streams_group_heartbeat
from fencepost.runtime.requests.streams_group_topology_description_update import (
    streams_group_topology_description_update,
)
from fencepost.wire.api.streams_group_describe import StreamsGroupDescribeRequest
from fencepost.wire.api.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from fencepost.wire.api.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from fencepost.wire.errors import ErrorCode

NOT_OFFERED: Final = (
    "the streams group protocol (group.protocol=streams, KIP-1071) is not offered: it takes "
    "streams.version 1, and streams in group.coordinator.rebalance.protocols; or set "
    "group.protocol=classic"
)

handles(StreamsGroupDescribeRequest)(streams_group_describe)
handles(StreamsGroupTopologyDescriptionUpdateRequest)(streams_group_topology_description_update)


@handles(StreamsGroupHeartbeatRequest, stores_text=True)
def handle(
    context: RequestContext,
    request: StreamsGroupHeartbeatRequest,
    *,
    warnings: ClientWarnings,
    access: Access,
    clocks: Clocks,
    groups: GroupCoordinators,
    metadata: ClusterMetadata,
    topics: StreamsTopicCreation,
) -> StreamsGroupHeartbeatResponse | None:
    """Have it decided; tell the operator if the protocol is not offered."""
    answer = streams_group_heartbeat(
        context,
        request,
        access=access,
        clocks=clocks,
        groups=groups,
        metadata=metadata,
        topics=topics,
    )
    if answer is not None and answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        warnings.warn(context.client_id, context.client_host, f"does nothing: {NOT_OFFERED}")
    return answer
