"""StreamsGroupTopologyDescriptionUpdate (key 93) v0: refused, since there is no plugin here that
stores descriptions of topologies (KIP-1331); heartbeats never ask for one. A Kafka broker without a
plugin answers the same."""

from __future__ import annotations

from typing import Final

from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import READ_GROUP
from fencepost.runtime.requests.streams_groups import is_offered
from fencepost.wire.api.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from fencepost.wire.errors import ErrorCode

NO_PLUGIN: Final = "The broker has no streams group topology description plugin configured."


def streams_group_topology_description_update(
    context: RequestContext,
    request: StreamsGroupTopologyDescriptionUpdateRequest,
    *,
    access: Access,
    groups: GroupCoordinators,
    metadata: ClusterMetadata,
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Refuse, a client that may not read the group for that reason."""
    message: str | None = NO_PLUGIN
    error = ErrorCode.UNSUPPORTED_VERSION
    if not is_offered(groups, metadata):
        message = None
    elif refusal := access.refusal(context, READ_GROUP, request.group_id):
        error, message = refusal, None
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=int(error), error_message=message
    )
