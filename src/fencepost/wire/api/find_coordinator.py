"""FindCoordinator (key 10): which broker looks after a group or a transaction.

* v0 finds groups; v1 also transactions (KIP-98) and adds the throttle time and error texts; v2
  throttles after the answer (KIP-219), v3 is flexible.
* v4 looks up many keys at once (KIP-699), v5 allows error 120 (KIP-890), v6 finds share
  partitions (KIP-932).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int8, Int16, Int32, String


class FindCoordinatorRequest(
    Request["FindCoordinatorResponse"], api_key=10, versions="0-6", flexible="3+"
):
    """Asks for coordinators."""

    key: String = field("0-3", doc="Group or transactional id, up to v3.")
    key_type: Int8 = field(
        "1+",
        doc="0 group, 1 transaction, 2 share partition (key `group:topic id:partition`).",
    )
    coordinator_keys: list[String] = field("4+", doc="The keys, from v4 on.")


class Coordinator(Struct):
    """The coordinator of one key."""

    key: String = field("4+", doc="The key.")
    node_id: Int32 = field("4+", doc="Id of the broker; -1 on an error.")
    host: String = field("4+", doc="Host name of the broker; empty on an error.")
    port: Int32 = field("4+", doc="Port of the broker; -1 on an error.")
    error_code: Int16 = field(
        "4+",
        doc="0; 15 while there is none, 30 or 53 not authorized, 42 for another kind of key.",
    )
    error_message: String | None = field(
        "4+",
        ignorable=True,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )


class FindCoordinatorResponse(Message, api_key=10, kind="response", versions="0-6", flexible="3+"):
    """The coordinators, on the listener the request came through."""

    throttle_time_ms: Int32 = field(
        "1+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        "0-3",
        doc=(
            "0, up to v3; 15 while there is none, 30 or 53 not authorized, 42 for another kind of "
            "key."
        ),
    )
    error_message: String | None = field(
        "1-3",
        ignorable=True,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    node_id: Int32 = field("0-3", doc="Id of the broker, up to v3.")
    host: String = field("0-3", doc="Host name of the broker, up to v3.")
    port: Int32 = field("0-3", doc="Port of the broker, up to v3.")
    coordinators: list[Coordinator] = field("4+", doc="One entry per key, from v4 on.")
