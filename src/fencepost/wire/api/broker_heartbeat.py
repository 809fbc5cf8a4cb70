"""BrokerHeartbeat (key 63): a broker is alive, and asks to be fenced, unfenced or let go.

KIP-631. v1 reports directories that went offline (KIP-858), v2 cordoned ones (KIP-1066).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.types import Bool, Int16, Int32, Int64, Uuid


class BrokerHeartbeatRequest(
    Request["BrokerHeartbeatResponse"], api_key=63, versions="0-2", flexible="0+"
):
    """Says that a broker is alive and what it wants."""

    broker_id: Int32 = field(doc="Id of the broker.")
    broker_epoch: Int64 = field(
        default=-1,
        doc="Its registration epoch; error 77 if it is an old one.",
    )
    current_metadata_offset: Int64 = field(doc="Last metadata offset it has applied.")
    want_fence: Bool = field(doc="Whether it wants to stay or become fenced.")
    want_shut_down: Bool = field(doc="Whether it wants to give up its leaderships and stop.")
    offline_log_dirs: list[Uuid] = field(
        "1+",
        tag=0,
        doc="Ids of the log directories that are offline.",
    )
    cordoned_log_dirs: list[Uuid] | None = field(
        "2+",
        tag=1,
        default=None,
        doc="Ids of the directories that take no new replicas; null for no change.",
    )


class BrokerHeartbeatResponse(Message, api_key=63, kind="response", versions="0-2", flexible="0+"):
    """What the controller makes of it."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(doc="0, or why the heartbeat does not count.")
    is_caught_up: Bool = field(doc="Whether it has applied its own registration.")
    is_fenced: Bool = field(default=True, doc="Whether it is fenced.")
    should_shut_down: Bool = field(doc="Whether it may stop now.")
