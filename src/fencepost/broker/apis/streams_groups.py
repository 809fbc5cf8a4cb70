"""What a broker serves to members of streams groups, and to administrators of these;
`runtime.requests` decides."""

from __future__ import annotations

from fencepost.broker.net.registry import handles
from fencepost.runtime.requests.streams_group_describe import streams_group_describe
from fencepost.runtime.requests.streams_group_heartbeat import streams_group_heartbeat
from fencepost.runtime.requests.streams_group_topology_description_update import (
    streams_group_topology_description_update,
)
from fencepost.wire.api.streams_group_describe import StreamsGroupDescribeRequest
from fencepost.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from fencepost.wire.api.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)

handles(StreamsGroupHeartbeatRequest, stores_text=True)(streams_group_heartbeat)
handles(StreamsGroupDescribeRequest)(streams_group_describe)
handles(StreamsGroupTopologyDescriptionUpdateRequest)(streams_group_topology_description_update)
