"""Requests that the active controller answers, from the two kinds of listeners.

What a broker is asked it takes to the active controller (`take_to_controller`); a controller that
is asked decides, or says that it is not the active one (`decide_here`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

Refusal = Callable[[Any, ErrorCode], Message]
"""Makes the response to a request whose items all have the same error."""


def decide_here(
    controller: ControllerService,
    context: PendingRequest,
    request: Message,
    refusal: Refusal | None = None,
) -> None:
    """Have this node's controller decide; answer when that is committed.

    Without `refusal` an error is said at the top of the response.
    """
    controller.serve(request, _answer_to(context, request, refusal), context.api_version, context)


def take_to_controller(
    forwarder: Forwarder,
    context: PendingRequest,
    request: Message,
    refusal: Refusal | None = None,
) -> None:
    """Have the active controller decide, wherever it is; otherwise as `decide_here`."""
    forwarder.forward(context, request, _answer_to(context, request, refusal))


def _answer_to(
    context: PendingRequest, request: Message, refusal: Refusal | None
) -> Callable[[ErrorCode, Any], None]:
    def on_reply(error: ErrorCode, response: Any) -> None:
        if error is ErrorCode.NONE:
            context.reply(response)
        elif refusal is not None:
            context.reply(refusal(request, error))
        else:
            context.fail(error)

    return on_reply
