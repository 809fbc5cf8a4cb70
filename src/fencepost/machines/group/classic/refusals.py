"""Refusals of members of classic groups whose requests wait."""

from __future__ import annotations

from typing import Any

from fencepost.machines.coordinator import Decision
from fencepost.machines.group.classic.member import Member
from fencepost.machines.group.records import GroupRecord
from fencepost.wire.api.join_group import JoinGroupResponse
from fencepost.wire.api.sync_group import SyncGroupResponse
from fencepost.wire.errors import ErrorCode


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
