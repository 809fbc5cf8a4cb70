"""Heartbeat (key 12): a member of a classic group is alive.

Error 27 in the answer tells it to join again. v1 adds the throttle time, v2 throttles after the
answer (KIP-219), v3 has static members (KIP-345), v4 is flexible.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.types import Int16, Int32, String


class HeartbeatRequest(Request["HeartbeatResponse"], api_key=12, versions="0-4", flexible="4+"):
    """Says that a member is alive."""

    group_id: String = field(doc="Id of the group.")
    generation_id: Int32 = field(doc="Generation the member is in.")
    member_id: String = field(doc="Id of the member.")
    group_instance_id: String | None = field(
        "3+",
        default=None,
        doc="Id of a static member, or null.",
    )


class HeartbeatResponse(Message, api_key=12, kind="response", versions="0-4", flexible="4+"):
    """Whether the member may go on."""

    throttle_time_ms: Int32 = field(
        "1+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0, also while the coordinator loads; 27 to join again, 22 or 25 when it is not in "
            "any more, 82 when replaced; 15 or 16 no coordinator here now, 24, 30."
        ),
    )
