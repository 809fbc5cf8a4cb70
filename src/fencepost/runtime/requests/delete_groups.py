"""DeleteGroups (key 42) v0-3: delete groups without members, with all their offsets (KIP-229).

v3 has a message per group. Kafka 4.4.0 fills it when a plugin for descriptions of topologies keeps
a streams group from being deleted (GROUP_DELETION_FAILED, KIP-1331); it is null here, as in Kafka
without the plugin.
"""

from __future__ import annotations

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

    def ask(group_id: str) -> None:
        def forget(coordinator: GroupCoordinator, token: Any) -> Decision:
            return coordinator.of_type(ShareGroups).offsets.forget(group_id, token)

        def on_forgotten(error: ErrorCode, reply: ForgetReply | None) -> None:
            """Share coordinators forget a share group before its own coordinator does."""
            error = error if reply is None else reply.error
            if error:
                on_reply(error, None)
            elif reply is None or reply.message is None or groups.share_states is None:
                groups.submit(group_id, decide, on_reply)
            else:
                groups.share_states.delete(reply.message, on_deleted)

        def on_deleted(error: ErrorCode, failures: Failures) -> None:
            for reason, _ in failures.values():
                error = reason
            if error:
                on_reply(error, None)
            else:
                groups.submit(group_id, decide, on_reply)

        def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
            return coordinator.decide_delete_groups([group_id], token)

        def on_reply(error: ErrorCode, answer: list[DeletableGroupResult] | None) -> None:
            nonlocal outstanding
            code = int(error) if answer is None else answer[0].error_code
            results[group_id].error_code = code
            outstanding -= 1
            if outstanding == 0:
                context.reply(DeleteGroupsResponse(results=list(results.values())))

        if refusal := access.refusal(context, DELETE_GROUP, group_id):
            on_reply(refusal, None)
        else:
            groups.submit(group_id, forget, on_forgotten)

    for group_id in group_ids:
        ask(group_id)
        yield None
    return None
