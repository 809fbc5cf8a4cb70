"""JoinGroup (key 11): become or stay a member of a classic group.

The coordinator holds the answer until every member has joined or the time for it is over. The
leader of the new generation gets everyone's metadata and assigns in SyncGroup.

* v1 adds the rebalance timeout (KIP-62), v2 the throttle time, v3 throttles after the answer
  (KIP-219), v4 makes a new member come back with the id it got (KIP-394), v5 has static members
  (KIP-345), v6 is flexible.
* v7 returns the protocol type (KIP-559), v8 says why a member rejoins (KIP-800), v9 tells a
  returning leader not to assign (KIP-814).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Bytes, Int16, Int32, String


class JoinGroupRequestProtocol(Struct):
    """A protocol the member supports."""

    name: String = field(doc="Name of the protocol: for consumers, the assignor.")
    metadata: Bytes = field(doc="What the member tells the leader, in the protocol's own format.")


class JoinGroupRequest(Request["JoinGroupResponse"], api_key=11, versions="0-9", flexible="6+"):
    """Joins a group."""

    group_id: String = field(doc="Id of the group.")
    session_timeout_ms: Int32 = field(
        doc="Milliseconds without a heartbeat after which the member is out.",
    )
    rebalance_timeout_ms: Int32 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc="Milliseconds the others wait for it to rejoin; v0 uses the session timeout.",
    )
    member_id: String = field(doc="Id of the member; empty for a new one.")
    group_instance_id: String | None = field(
        "5+",
        default=None,
        doc="Id of a static member, or null.",
    )
    protocol_type: String = field(doc="Kind of protocol; all members must have the same.")
    protocols: list[JoinGroupRequestProtocol] = field(
        doc="Protocols the member supports, in order of preference.",
    )
    reason: String | None = field(
        "8+",
        default=None,
        ignorable=True,
        doc="Why it joins, for the broker's log; or null.",
    )


class JoinGroupResponseMember(Struct):
    """A member, told to the leader only."""

    member_id: String = field(doc="Id of the member.")
    group_instance_id: String | None = field(
        "5+",
        default=None,
        ignorable=True,
        doc="Id of a static member, or null.",
    )
    metadata: Bytes = field(doc="What the member said for the chosen protocol.")


class JoinGroupResponse(Message, api_key=11, kind="response", versions="0-9", flexible="6+"):
    """The new generation."""

    throttle_time_ms: Int32 = field(
        "2+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0. 79: join again with this member id; 25: join again without one; 82 the static "
            "member was replaced; 23 no protocol in common, 26 a session timeout out of bounds, "
            "81 the group is full; 14, 15 or 16: no coordinator here now; 24, 27, 30."
        ),
    )
    generation_id: Int32 = field(default=-1, doc="Number of the generation; -1 on an error.")
    protocol_type: String | None = field(
        "7+",
        default=None,
        ignorable=True,
        doc="Kind of protocol of the group, or null.",
    )
    protocol_name: String | None = field(
        nullable="7+",
        doc="Protocol that was chosen; null (v7+) on an error.",
    )
    leader: String = field(doc="Id of the member that assigns.")
    skip_assignment: Bool = field(
        "9+",
        doc="Whether the leader must leave the assignment as it is.",
    )
    member_id: String = field(doc="Id the member has got.")
    members: list[JoinGroupResponseMember] = field(
        doc="All members, in the leader's answer; otherwise empty.",
    )
