"""ControllerRegistration (key 70) v0: a controller says what it is.

The rules are the controller's (`machines.controller.controllers`, KIP-919). A controller that is
not the active one answers 41.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import decide_here
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import CONTROLLER, handles
from fencepost.wire.api.controller_registration import ControllerRegistrationRequest


@handles(ControllerRegistrationRequest, listeners=(CONTROLLER,), stores_text=True)
def handle(
    context: PendingRequest,
    request: ControllerRegistrationRequest,
    *,
    controller: ControllerService,
) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(controller, context, request)
