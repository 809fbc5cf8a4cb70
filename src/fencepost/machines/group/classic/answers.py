"""Answers to requests of members of classic groups, and refusals of those that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost.machines.coordinator import Decision
from fencepost.machines.group.classic.member import Member
from fencepost.machines.group.records import GroupRecord
from fencepost.wire.api.join_group import JoinGroupResponse, JoinGroupResponseMember
from fencepost.wire.api.sync_group import SyncGroupResponse
from fencepost.wire.errors import ErrorCode

if TYPE_CHECKING:
    from fencepost.machines.group.classic.group import ClassicGroup


def refuse_waiting(
    decision: Decision[GroupRecord], member: Member, error: ErrorCode, member_id: str | None = None
) -> None:
    """Answer the requests of a member that wait, if any, with `error`."""
    if member.join_token is not None:
        known_as = member.member_id if member_id is None else member_id
        refuse_join(decision, member.join_token, error, known_as)
    if member.sync_token is not None:
        decision.reply(member.sync_token, SyncGroupResponse(error_code=error))


def refuse_join(
    decision: Decision[GroupRecord], token: Any, error: ErrorCode, member_id: str
) -> None:
    """Answer a JoinGroup with an error."""
    decision.reply(token, JoinGroupResponse(error_code=error, member_id=member_id))


def roster_of(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    """The members as the leader receives them in its JoinGroup answer."""
    assert group.protocol is not None
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in group.members.values()
    ]


def joined(
    group: ClassicGroup,
    member: Member,
    roster: list[JoinGroupResponseMember],
    *,
    leader: str | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """The answer to a JoinGroup that succeeded."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader if leader is not None else (group.leader_id or ""),
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=roster,
    )


def assigned(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """The answer to a SyncGroup that succeeded."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=assignment,
    )
