"""DeleteGroups (key 42) v0-3: delete groups without members, with all their offsets (KIP-229).

v3 has a message per group. Kafka 4.4.0 fills it when a plugin for descriptions of topologies keeps
a streams group from being deleted (GROUP_DELETION_FAILED, KIP-1331); it is null here, as in Kafka
without the plugin.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.group.share.groups import ShareGroups
from fencepost.machines.group.share.offsets import ForgetReply
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.permissions import DELETE_GROUP
from fencepost.runtime.share_group_states import Failures
from fencepost.wire.api.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from fencepost.wire.errors import ErrorCode


def delete_groups(
    context: RequestContext,
    request: DeleteGroupsRequest,
    *,
    access: Access,
    groups: GroupCoordinators,
) -> Pieces:
    """Ask the coordinator of each group that the client may delete; answer when all have
    answered."""
    group_ids = list(dict.fromkeys(request.groups_names))
    if not group_ids:
        return DeleteGroupsResponse()
    results = {group_id: DeletableGroupResult(group_id=group_id) for group_id in group_ids}
    outstanding = len(group_ids)

    def take(group_id: str, error_code: int) -> None:
        nonlocal outstanding
        results[group_id].error_code = error_code
        outstanding -= 1
        if outstanding == 0:
            context.reply(DeleteGroupsResponse(results=list(results.values())))

    for group_id in group_ids:
        if refusal := access.refusal(context, DELETE_GROUP, group_id):
            take(group_id, int(refusal))
        else:
            _Deletion(groups, group_id, partial(take, group_id)).begin()
        yield None
    return None


class _Deletion:
    """One group is deleted: share coordinators forget a share group before its own does."""

    def __init__(
        self, groups: GroupCoordinators, group_id: str, on_result: Callable[[int], None]
    ) -> None:
        self._groups = groups
        self._group_id = group_id
        self._on_result = on_result
        """Takes the error code."""

    def begin(self) -> None:
        """Ask the group's coordinator what share coordinators know of the group."""
        self._groups.submit(self._group_id, self._forget, self._forgotten)

    def _forget(self, coordinator: GroupCoordinator, token: Any) -> Decision:
        return coordinator.of_type(ShareGroups).offsets.forget(self._group_id, token)

    def _forgotten(self, error: ErrorCode, reply: ForgetReply | None) -> None:
        states, error = self._groups.share_states, error if reply is None else reply.error
        if error:
            self._on_result(int(error))
        elif reply is None or reply.message is None or states is None:
            self._delete()
        else:
            states.delete(reply.message, self._states_deleted)

    def _states_deleted(self, error: ErrorCode, failures: Failures) -> None:
        for reason, _ in failures.values():
            error = reason
        if error:
            self._on_result(int(error))
        else:
            self._delete()

    def _delete(self) -> None:
        self._groups.submit(self._group_id, self._decide, self._deleted)

    def _decide(self, coordinator: GroupCoordinator, token: Any) -> Decision:
        return coordinator.decide_delete_groups([self._group_id], token)

    def _deleted(self, error: ErrorCode, answer: list[DeletableGroupResult] | None) -> None:
        self._on_result(int(error) if answer is None else answer[0].error_code)
