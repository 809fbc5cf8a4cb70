"""SyncGroup (key 14): the leader hands in the assignment, every member gets its part.

Members' answers wait for the leader's request. v1 adds the throttle time, v2 throttles after the
answer (KIP-219), v3 has static members (KIP-345), v4 is flexible, v5 checks the protocol
(KIP-559).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bytes, Int16, Int32, String


class SyncGroupRequestAssignment(Struct):
    """The part of one member."""

    member_id: String = field(doc="Id of the member.")
    assignment: Bytes = field(doc="Its assignment, in the protocol's own format.")


class SyncGroupRequest(Request["SyncGroupResponse"], api_key=14, versions="0-5", flexible="4+"):
    """Asks for the member's part, and brings all parts if it is the leader."""

    group_id: String = field(doc="Id of the group.")
    generation_id: Int32 = field(doc="Generation the member is in.")
    member_id: String = field(doc="Id of the member.")
    group_instance_id: String | None = field(
        "3+",
        default=None,
        doc="Id of a static member, or null.",
    )
    protocol_type: String | None = field(
        "5+",
        default=None,
        ignorable=True,
        doc="Kind of protocol the member expects, or null; error 23 if it is another.",
    )
    protocol_name: String | None = field(
        "5+",
        default=None,
        ignorable=True,
        doc="Protocol the member expects, or null; error 23 if it is another.",
    )
    assignments: list[SyncGroupRequestAssignment] = field(
        doc="All parts, from the leader; otherwise empty.",
    )


class SyncGroupResponse(Message, api_key=14, kind="response", versions="0-5", flexible="4+"):
    """The member's part."""

    throttle_time_ms: Int32 = field(
        "1+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0. 27: join again, from brokers before 4.0 also while the coordinator loads; 22 or "
            "25 not in any more, 82 replaced, 23 other protocols than the group has; 14, 15 or "
            "16: no coordinator here now, 24, 30."
        ),
    )
    protocol_type: String | None = field(
        "5+",
        default=None,
        ignorable=True,
        doc="Kind of protocol of the group, or null.",
    )
    protocol_name: String | None = field(
        "5+",
        default=None,
        ignorable=True,
        doc="Protocol of the generation, or null.",
    )
    assignment: Bytes = field(doc="The assignment, in the protocol's own format.")
