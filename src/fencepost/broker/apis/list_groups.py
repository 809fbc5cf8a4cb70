"""ListGroups (key 16) v0-5: the groups this node coordinates, by state (v4+) and type (v5+).

While a coordinator loads, the answer is COORDINATOR_LOAD_IN_PROGRESS: a list that lacks groups
would be taken for the whole.
"""

from __future__ import annotations

from typing import Any

from fencepost.broker.groups.group_host import GroupHost
from fencepost.broker.net.registry import handles
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.runtime.requests.context import RequestContext
from fencepost.wire.api.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from fencepost.wire.errors import ErrorCode


@handles(ListGroupsRequest)
def handle(
    context: RequestContext, request: ListGroupsRequest, *, group_host: GroupHost
) -> ListGroupsResponse | None:
    """Ask every coordinator here; answer when all have answered."""
    coordinators = list(group_host.coordinators())
    if not coordinators:
        return ListGroupsResponse()
    groups: list[ListedGroup] = []
    outstanding = len(coordinators)
    failure = ErrorCode.NONE

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        return coordinator.decide_list_groups(request.states_filter, request.types_filter, token)

    def on_reply(error: ErrorCode, listed: list[ListedGroup] | None) -> None:
        nonlocal outstanding, failure
        outstanding -= 1
        if listed is not None:
            groups.extend(listed)
        elif error is not ErrorCode.NOT_COORDINATOR:  # whose groups then are another node's
            failure = error
        if outstanding == 0:
            shown = groups if failure is ErrorCode.NONE else []
            context.reply(ListGroupsResponse(error_code=int(failure), groups=shown))

    for one in coordinators:
        one.submit(decide, on_reply)
    return None
