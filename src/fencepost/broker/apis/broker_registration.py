"""BrokerRegistration (key 62) v0-4: a broker begins a life in the cluster.

The rules are the controller's (`machines.controller.brokers`, KIP-631). A controller that is not
the active one answers 41.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import decide_here
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import CONTROLLER, handles
from fencepost.wire.api.broker_registration import BrokerRegistrationRequest


@handles(BrokerRegistrationRequest, listeners=(CONTROLLER,), stores_text=True)
def handle(
    context: PendingRequest, request: BrokerRegistrationRequest, *, controller: ControllerService
) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(controller, context, request)
