"""AllocateProducerIds (key 67) v0: a broker wants a block of producer ids.

The block is written down before it is given away (KIP-730). A controller that is not the active one
answers 41.
"""

from __future__ import annotations

from fencepost.broker.cluster.controller_requests import decide_here
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import CONTROLLER, handles
from fencepost.wire.api.allocate_producer_ids import AllocateProducerIdsRequest


@handles(AllocateProducerIdsRequest, listeners=(CONTROLLER,))
def handle(
    context: PendingRequest, request: AllocateProducerIdsRequest, *, controller: ControllerService
) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(controller, context, request)
