"""Looking at groups and deleting them: ListGroups, DeleteGroups, what Describe APIs share.

Each answers for the groups of this shard; a request for groups of several is put together by the
handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from fencepost.machines.group.commits import Commits
from fencepost.machines.group.shard import Decision, G, Shard
from fencepost.wire.api.delete_groups import DeletableGroupResult
from fencepost.wire.api.list_groups import ListedGroup
from fencepost.wire.errors import ErrorCode

D = TypeVar("D")


def described(
    shard: Shard,
    group_ids: Iterable[str],
    cls: type[G],
    type_name: str,
    missing: Callable[[str, str], D],
) -> list[Any | D]:
    """Each group of the class as it describes itself (`Group.describe`), in the order of the ids.

    For others `missing` makes the answer, of the id and Kafka's words for what is wrong.
    """
    answers: list[Any | D] = []
    for group_id in group_ids:
        group = shard.groups.get(group_id)
        if isinstance(group, cls):
            answers.append(group.describe())
        elif group is None:
            answers.append(missing(group_id, f"Group {group_id} not found."))
        else:
            message = f"Group {group_id} is not a {type_name} group."
            answers.append(missing(group_id, message))
    return answers


def list_groups(shard: Shard, states: Sequence[str], types: Sequence[str], token: Any) -> Decision:
    """A `list[ListedGroup]` of those in one of `states` and of one of `types`, if any are named.

    Names are compared without regard to case; one that nothing is called matches nothing. Kafka
    4.4 knows the state NotReady by "not_ready" alone, which is not what it lists; both match here.
    """
    wanted_states = {state.strip().lower().replace("_", "") for state in states}
    wanted_types = {group_type.strip().lower() for group_type in types}
    decision = Decision()
    listed = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=group.group_type,
        )
        for group in shard.groups.values()
        if (not wanted_types or group.group_type in wanted_types)
        and (not wanted_states or group.state.value.lower() in wanted_states)
    ]
    decision.reply(token, listed)
    return decision


def delete_groups(shard: Shard, commits: Commits, group_ids: Sequence[str], token: Any) -> Decision:
    """A `list[DeletableGroupResult]`, one per id. Only groups without members can be deleted."""
    decision = Decision(is_atomic=False)
    results = []
    for group_id in dict.fromkeys(group_ids):
        group = shard.groups.get(group_id)
        if group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif not group.is_empty:
            error = ErrorCode.NON_EMPTY_GROUP
        else:
            error = ErrorCode.NONE
            commits.forget_group(decision, group)
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
    decision.reply(token, results)
    return decision
