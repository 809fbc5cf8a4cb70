"""LeaveGroup (key 13): take members out of a classic group.

v1 adds the throttle time, v2 throttles after the answer (KIP-219), v3 takes out many, also by
their static id (KIP-345), v4 is flexible, v5 says why (KIP-800).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, String


class MemberIdentity(Struct):
    """A member to take out."""

    member_id: String = field("3+", doc="Id of the member; may be empty with a static id.")
    group_instance_id: String | None = field(
        "3+",
        default=None,
        doc="Id of a static member, or null.",
    )
    reason: String | None = field(
        "5+",
        default=None,
        ignorable=True,
        doc="Why it leaves, for the broker's log; or null.",
    )


class LeaveGroupRequest(Request["LeaveGroupResponse"], api_key=13, versions="0-5", flexible="4+"):
    """Takes members out of a group."""

    group_id: String = field(doc="Id of the group.")
    member_id: String = field("0-2", doc="Id of the member, up to v2.")
    members: list[MemberIdentity] = field("3+", doc="The members, from v3 on.")


class MemberResponse(Struct):
    """What became of one member."""

    member_id: String = field("3+", doc="Id of the member.")
    group_instance_id: String | None = field("3+", doc="Id of a static member, or null.")
    error_code: Int16 = field(
        "3+",
        doc="0; 25 not a member, 82 another member has the static id.",
    )


class LeaveGroupResponse(Message, api_key=13, kind="response", versions="0-5", flexible="4+"):
    """What became of the members."""

    throttle_time_ms: Int32 = field(
        "1+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0, or why nothing was done: 14, 15 or 16 no coordinator here now, 24, 30; up to v2 "
            "25 for the member."
        ),
    )
    members: list[MemberResponse] = field(
        "3+",
        doc="One entry per member of the request, from v3 on.",
    )
