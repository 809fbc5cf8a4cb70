"""Requests of the quorum protocol, from a listener to the quorum machine and back.

Each is an input for the machine and is answered by it, perhaps later. The machine does not know
versions; what the one of the request cannot carry is left out of the answer here. `forward` is for
the few that clients send to brokers: the leader's machine answers them, wherever that is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.machines.driver import Driver
from fencepost.machines.quorum import received
from fencepost.machines.quorum.versions import fit
from fencepost.runtime.metadata.host import METADATA_KEY
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.permissions import Permission
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message


def ask_machine(
    driver: Driver,
    access: Access,
    permission: Permission,
    context: PendingRequest,
    request: Message,
) -> None:
    """Have this node's quorum machine answer with a message, if the client has the permission."""
    if refusal := access.refusal(context, permission):
        context.fail(refusal)
        return

    def on_answer(response: Message) -> None:
        context.reply(fit(response, context.api_version))

    driver.feed(METADATA_KEY, received(on_answer, request))


def forward(
    forwarder: Forwarder,
    context: PendingRequest,
    request: Message,
    refusal: Callable[[ErrorCode], Message],
) -> None:
    """Have the leader of the quorum answer; `refusal` makes a response of an error."""

    def on_reply(error: ErrorCode, response: Any) -> None:
        context.reply(refusal(error) if error else fit(response, context.api_version))

    forwarder.forward(context, request, on_reply)
