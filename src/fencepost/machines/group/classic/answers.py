"""Answers to requests of members of classic groups."""

from __future__ import annotations

from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.machines.group.classic.member import Member
from fencepost.wire.api.join_group import JoinGroupResponse, JoinGroupResponseMember
from fencepost.wire.api.sync_group import SyncGroupResponse


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
