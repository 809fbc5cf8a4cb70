"""ListGroups (key 16) v0-5: the groups this node coordinates, by state (v4+) and type (v5+).

While a coordinator loads, the answer is COORDINATOR_LOAD_IN_PROGRESS: a list that lacks groups
would be taken for the whole. A client that may describe the cluster sees all groups, another one
those that it may describe.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import DESCRIBE_CLUSTER, DESCRIBE_GROUP
from fencepost.wire.api.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from fencepost.wire.errors import ErrorCode


def list_groups(
    context: RequestContext,
    request: ListGroupsRequest,
    *,
    access: Access,
    groups: GroupCoordinators,
) -> ListGroupsResponse | None:
    """Ask every coordinator here; answer when all have answered."""
    sees_all = access.allows(context, DESCRIBE_CLUSTER, quiet=True)
    coordinators = list(groups.coordinators())
    if not coordinators:
        return ListGroupsResponse()
    found: list[ListedGroup] = []
    outstanding = len(coordinators)
    failure = ErrorCode.NONE

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        return coordinator.decide_list_groups(request.states_filter, request.types_filter, token)

    def on_reply(error: ErrorCode, listed: list[ListedGroup] | None) -> None:
        nonlocal outstanding, failure
        outstanding -= 1
        if listed is not None:
            found.extend(
                one
                for one in listed
                if sees_all or access.allows(context, DESCRIBE_GROUP, one.group_id, quiet=True)
            )
        elif error is not ErrorCode.NOT_COORDINATOR:  # another node coordinates those groups
            failure = error
        if outstanding == 0:
            shown = found if failure is ErrorCode.NONE else []
            context.reply(ListGroupsResponse(error_code=int(failure), groups=shown))

    for one in coordinators:
        one.submit(decide, on_reply)
    return None
