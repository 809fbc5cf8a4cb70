"""Requests of the quorum protocol, from a listener to the quorum machine and back.

Each is an input for the machine and is answered by it, perhaps later. The machine knows neither
versions nor listeners: what the version of the request cannot carry is left out of the answer here,
and a leader's address is that on the listener which the request came by. `forward` is for
the few that clients send to brokers: the leader's machine answers them, wherever that is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.machines.driver import Driver
from fencepost.machines.quorum import QuorumMachine, received
from fencepost.machines.quorum.endpoints import add_leader
from fencepost.machines.quorum.versions import fit
from fencepost.runtime.metadata.host import METADATA_KEY, MetadataHost
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.permissions import Permission
from fencepost.wire.api.update_raft_voter import UpdateRaftVoterResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

_M = TypeVar("_M", bound=Message)


def ask_machine(
    driver: Driver,
    metadata: MetadataHost,
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
        told = told_on(context.listener_name, metadata.machine, response)
        context.reply(fit(told, context.api_version))

    driver.feed(METADATA_KEY, received(on_answer, request))


def told_on(listener: str, machine: QuorumMachine, response: _M) -> _M:
    """`response`, changed in place so that it says where the leader is reached on this listener.

    The machine answers with the listener that this node itself uses, which may have another
    protocol: controllers have two while a cluster moves from the one to the other.
    """
    answer: Any = response
    if listener.upper() == machine.node.config.listener.upper():
        return response
    if isinstance(response, UpdateRaftVoterResponse):
        leader_id = response.current_leader.leader_id
        where = machine.leader_endpoint_on(listener) if leader_id == machine.leader_id else None
        response.current_leader.host = "" if where is None else where.host
        response.current_leader.port = 0 if where is None else where.port
    elif told := getattr(answer, "node_endpoints", None):
        answer.node_endpoints = []
        if told[0].node_id == machine.leader_id:
            add_leader(answer, machine.leader_id, machine.leader_endpoint_on(listener))
    return response


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
