"""UnregisterBroker (key 64): forget a broker that will not come back (KIP-631).

Sent by the administrator's client to a controller, or to a broker, which forwards it. It ends the
registration that BrokerRegistration began: the broker leaves every ISR and leadership it has, and
no longer keeps features from being raised. Replicas assigned to it stay assigned, so move them
away first. A broker that still runs registers again. Only KRaft clusters have this API.

The request needs ALTER on the cluster.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.types import Int16, Int32, String


class UnregisterBrokerRequest(
    Request["UnregisterBrokerResponse"], api_key=64, versions="0", flexible="0+"
):
    """Asks the controller to forget one broker."""

    broker_id: Int32 = field(doc="Id of the broker; error 102 when it is not registered.")


class UnregisterBrokerResponse(Message, api_key=64, kind="response", versions="0", flexible="0+"):
    """Whether the broker is forgotten."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc="0; 31, 41 not the active controller, 102 there is no such registration.",
    )
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
