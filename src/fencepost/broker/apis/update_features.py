"""UpdateFeatures (key 57) v0-2: change the levels at which the cluster runs.

The rules are the controller's (`machines.controller.features`). All changes of a request happen or
none, and an error stands at the top; when all is well, v0 and v1 say so of every feature, too.
`kraft.version` is changed by the quorum itself, before the others.

A controller that is not the active one answers 41; a broker looks for the active one and answers 7
if it finds none in a minute.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import decide_here, take_to_controller
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.wire.api.update_features import UpdateFeaturesRequest


@handles(UpdateFeaturesRequest, listeners=(BROKER,))
def handle(
    context: PendingRequest, request: UpdateFeaturesRequest, *, forwarder: Forwarder
) -> None:
    """Have the active controller decide."""
    take_to_controller(forwarder, context, request)


@handles(UpdateFeaturesRequest, listeners=(CONTROLLER,))
def handle_here(
    context: PendingRequest, request: UpdateFeaturesRequest, *, controller: ControllerService
) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(controller, context, request)
