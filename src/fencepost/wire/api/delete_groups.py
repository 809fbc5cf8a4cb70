"""DeleteGroups (key 42): remove empty groups with their offsets.

KIP-229. v1 throttles after the answer (KIP-219), v2 is flexible, v3 adds error texts.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, String


class DeleteGroupsRequest(
    Request["DeleteGroupsResponse"], api_key=42, versions="0-3", flexible="2+"
):
    """Removes groups."""

    groups_names: list[String] = field(doc="Ids of the groups.")


class DeletableGroupResult(Struct):
    """What became of one group."""

    group_id: String = field(doc="Id of the group.")
    error_code: Int16 = field(doc="0; 68 when it has members, 69 when it does not exist.")
    error_message: String | None = field(
        "3+",
        default=None,
        ignorable=True,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )


class DeleteGroupsResponse(Message, api_key=42, kind="response", versions="0-3", flexible="2+"):
    """What became of the groups."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    results: list[DeletableGroupResult] = field(doc="One entry per group of the request.")
