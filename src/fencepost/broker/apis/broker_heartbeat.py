"""BrokerHeartbeat (key 63) v0-2: a broker says that it is alive.

The rules are the controller's (`machines.controller.brokers`, KIP-631); a heartbeat may fence or
unfence the broker, or let it stop. A controller that is not the active one answers 41.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import decide_here
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import CONTROLLER, handles
from fencepost.runtime.broker_probes import BrokerProbes
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest


@handles(BrokerHeartbeatRequest, listeners=(CONTROLLER,))
def handle(
    context: PendingRequest,
    request: BrokerHeartbeatRequest,
    *,
    controller: ControllerService,
    probes: BrokerProbes,
) -> None:
    """Let the controller decide; answer when that is committed."""
    probes.heard(request.broker_id, request.broker_epoch, context.connection)
    decide_here(controller, context, request)
