"""ListGroups (key 16): the groups a broker coordinates.

To list all of a cluster's groups, ask every broker. v1 adds the throttle time, v2 throttles after
the answer (KIP-219), v3 is flexible, v4 adds states (KIP-518), v5 types (KIP-848).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, String


class ListGroupsRequest(Request["ListGroupsResponse"], api_key=16, versions="0-5", flexible="3+"):
    """Asks one broker for its groups."""

    states_filter: list[String] = field(
        "4+",
        doc="States to list; empty for all. Case does not matter, unknown ones match nothing.",
    )
    types_filter: list[String] = field(
        "5+",
        doc="Types to list (`classic`, `consumer`, `share`, `streams`); empty for all.",
    )


class ListedGroup(Struct):
    """A group."""

    group_id: String = field(doc="Id of the group.")
    protocol_type: String = field(
        doc="Kind of protocol, `consumer` for consumers; empty for offsets alone.",
    )
    group_state: String = field("4+", ignorable=True, doc="State of the group.")
    group_type: String = field("5+", ignorable=True, doc="Type of the group.")


class ListGroupsResponse(Message, api_key=16, kind="response", versions="0-5", flexible="3+"):
    """The groups of the broker that answers."""

    throttle_time_ms: Int32 = field(
        "1+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(doc="0; 14 while it still loads some of them.")
    groups: list[ListedGroup] = field(doc="The groups.")
