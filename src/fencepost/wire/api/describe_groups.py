"""DescribeGroups (key 15): state and members of classic groups.

v1 adds the throttle time, v2 throttles after the answer (KIP-219), v3 authorized operations
(KIP-430), v4 static ids (KIP-345), v5 is flexible, v6 answers error 69 for a group that does not
exist, where older versions get state `Dead` (KIP-1043).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Bytes, Int16, Int32, String


class DescribeGroupsRequest(
    Request["DescribeGroupsResponse"], api_key=15, versions="0-6", flexible="5+"
):
    """Asks a coordinator about groups."""

    groups: list[String] = field(doc="Ids of the groups.")
    include_authorized_operations: Bool = field(
        "3+",
        doc="Whether to fill in what the caller may do to each group.",
    )


class DescribedGroupMember(Struct):
    """A member of a group."""

    member_id: String = field(doc="Id of the member.")
    group_instance_id: String | None = field(
        "4+",
        default=None,
        ignorable=True,
        doc="Id of a static member, or null.",
    )
    client_id: String = field(doc="Client id the member sent.")
    client_host: String = field(doc="Address it came from.")
    member_metadata: Bytes = field(doc="What it said for the chosen protocol.")
    member_assignment: Bytes = field(doc="What it was given.")


class DescribedGroup(Struct):
    """A group."""

    error_code: Int16 = field(
        doc="0; 14, 15 or 16: no coordinator here now, 24, 30, 69 (v6+) there is none.",
    )
    error_message: String | None = field(
        "6+",
        default=None,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    group_id: String = field(doc="Id of the group.")
    group_state: String = field(
        doc="`Empty`, `PreparingRebalance`, `CompletingRebalance`, `Stable` or `Dead`.",
    )
    protocol_type: String = field(doc="Kind of protocol, `consumer` for consumers; empty for none.")
    protocol_data: String = field(doc="Protocol that was chosen; empty for none.")
    members: list[DescribedGroupMember] = field(doc="The members.")
    authorized_operations: Int32 = field(
        "3+",
        default=-0x80000000,
        doc="Bit set of what the caller may do; the least int32 when not asked for.",
    )


class DescribeGroupsResponse(Message, api_key=15, kind="response", versions="0-6", flexible="5+"):
    """The groups that were asked for."""

    throttle_time_ms: Int32 = field(
        "1+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    groups: list[DescribedGroup] = field(doc="One entry per group of the request.")
