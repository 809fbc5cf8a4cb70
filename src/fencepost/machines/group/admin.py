"""Looking at groups and deleting them: DescribeGroups, ListGroups, DeleteGroups of one shard.

Each answers for the groups of this shard; a request for groups of several is put together by the
handler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fencepost.machines.group.commits import Commits
from fencepost.machines.group.model import ClassicGroup, GroupState, Member
from fencepost.machines.group.shard import Decision, Shard
from fencepost.wire.api.delete_groups import DeletableGroupResult
from fencepost.wire.api.describe_groups import DescribedGroup, DescribedGroupMember
from fencepost.wire.api.list_groups import ListedGroup
from fencepost.wire.errors import ErrorCode

GROUP_ID_NOT_FOUND_FROM: Final = 6
"""Version of DescribeGroups from which a group that does not exist is an error."""

GROUP_TYPE: Final = "classic"
"""In lower case, as Kafka writes it (KIP-848): programs compare it."""


def describe_groups(
    shard: Shard, group_ids: Sequence[str], api_version: int, token: Any
) -> Decision:
    """A `list[DescribedGroup]`, one per id. A group that does not exist is "Dead"."""
    decision = Decision()
    answers = []
    for group_id in group_ids:
        group = shard.groups.get(group_id)
        if group is not None:
            answers.append(_described(group))
        elif api_version >= GROUP_ID_NOT_FOUND_FROM:
            answers.append(
                DescribedGroup(
                    group_id=group_id,
                    group_state=GroupState.DEAD.value,
                    error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                    error_message=f"Group {group_id} not found.",
                )
            )
        else:
            answers.append(DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value))
    decision.reply(token, answers)
    return decision


def _described(group: ClassicGroup) -> DescribedGroup:
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[_described_member(group, member, is_stable) for member in group.members.values()],
    )


def _described_member(
    group: ClassicGroup, member: Member, with_metadata: bool
) -> DescribedGroupMember:
    metadata = member.metadata(group.protocol or "") if with_metadata else b""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=metadata,
        member_assignment=member.assignment,
    )


def list_groups(shard: Shard, states: Sequence[str], types: Sequence[str], token: Any) -> Decision:
    """A `list[ListedGroup]` of those in one of `states` and of one of `types`, if any are named.

    Names are compared without regard to case; one that nothing is called matches nothing.
    """
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {group_type.strip().lower() for group_type in types}
    decision = Decision()
    fits = not wanted_types or GROUP_TYPE in wanted_types
    listed = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=GROUP_TYPE,
        )
        for group in shard.groups.values()
        if fits and (not wanted_states or group.state.value.lower() in wanted_states)
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
        elif group.state is not GroupState.EMPTY:
            error = ErrorCode.NON_EMPTY_GROUP
        else:
            error = ErrorCode.NONE
            commits.forget_group(decision, group)
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
    decision.reply(token, results)
    return decision
