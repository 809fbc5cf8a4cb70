"""InitializeShareGroupState (83), ReadShareGroupState (84), WriteShareGroupState (85),
DeleteShareGroupState (86), ReadShareGroupStateSummary (87): what share coordinators keep (KIP-932).

They are for brokers (CLUSTER_ACTION); to other clients every row is CLUSTER_AUTHORIZATION_FAILED.
The checks of a row are in `machines.share_state.coordinator`. Kafka serves them whatever the level
of `share.version`.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.permissions import CLUSTER_ACTION
from fencepost.runtime.share_states import APIS, ShareStateCoordinators

REFUSED: Final = "Cluster authorization failed."


def share_group_state(
    context: RequestContext, request: Any, *, access: Access, states: ShareStateCoordinators
) -> Pieces:
    """Have the coordinators decide about every row; answer when all have."""
    refusal = access.refusal(context, CLUSTER_ACTION)
    if not refusal:
        yield from states.answer(request, context.reply)
        return None
    api = APIS[type(request)]
    response = api.response()
    for topic in request.topics:
        rows = [
            api.row(partition=one.partition, error_code=int(refusal), error_message=REFUSED)
            for one in topic.partitions
        ]
        response.results.append(api.topic(topic_id=topic.topic_id, partitions=rows))
        yield None
    return response
