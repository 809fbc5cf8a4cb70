"""UnregisterController (key 94): forget a controller that will not come back (KIP-1312).

Sent by the administrator's client to a controller, or to a broker, which forwards it. It removes
what ControllerRegistration wrote, so that a controller of an old release that is gone no longer
keeps features from being raised. The voters are another matter: take the controller out with
RemoveRaftVoter and stop it first. One that still runs registers again.

New after 4.3, with metadata.version 4.4-IV2. The request needs ALTER on the cluster.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.types import Int16, Int32, String


class UnregisterControllerRequest(
    Request["UnregisterControllerResponse"], api_key=94, versions="0", flexible="0+"
):
    """Asks the active controller to forget another one."""

    controller_id: Int32 = field(
        doc=(
            "Node id of the controller: error 136 when it is not registered, 42 when it is the "
            "active controller itself."
        ),
    )


class UnregisterControllerResponse(
    Message, api_key=94, kind="response", versions="0", flexible="0+"
):
    """Whether the controller is forgotten."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0; 31, 35 when metadata.version is too old, 41 not the active controller, 42 it is "
            "the active controller itself, 136 there is no such registration."
        ),
    )
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
