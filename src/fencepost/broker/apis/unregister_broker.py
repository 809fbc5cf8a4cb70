"""UnregisterBroker (key 64) v0: forget a broker that will not come back.

What it led and held in sync is given up first. A broker that is alive notices with its next
heartbeat, and registers again. 102 when there is no such broker. A controller that is not the
active one answers 41; a broker looks for the active one and answers 7 if it finds none in a minute.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import decide_here, take_to_controller
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.wire.api.unregister_broker import UnregisterBrokerRequest


@handles(UnregisterBrokerRequest, listeners=(BROKER,))
def handle(
    context: PendingRequest, request: UnregisterBrokerRequest, *, forwarder: Forwarder
) -> None:
    """Have the active controller decide."""
    take_to_controller(forwarder, context, request)


@handles(UnregisterBrokerRequest, listeners=(CONTROLLER,))
def handle_here(
    context: PendingRequest, request: UnregisterBrokerRequest, *, controller: ControllerService
) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(controller, context, request)
