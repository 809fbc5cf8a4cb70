"""UnregisterController (key 94) v0: forget a controller that will not come back (KIP-1312).

A registration that stays keeps features from being raised beyond what that controller could run.
42 for the active controller itself, 35 before `metadata.version` 33 (4.4-IV2), 136 when there is no
such registration. A controller that still runs registers again when it starts. One that is not the
active controller answers 41; a broker looks for the active one and answers 7 if it finds none in a
minute.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import decide_here, take_to_controller
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.wire.api.unregister_controller import UnregisterControllerRequest


@handles(UnregisterControllerRequest, listeners=(BROKER,))
def handle(
    context: PendingRequest, request: UnregisterControllerRequest, *, forwarder: Forwarder
) -> None:
    """Have the active controller decide."""
    take_to_controller(forwarder, context, request)


@handles(UnregisterControllerRequest, listeners=(CONTROLLER,))
def handle_here(
    context: PendingRequest, request: UnregisterControllerRequest, *, controller: ControllerService
) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(controller, context, request)
