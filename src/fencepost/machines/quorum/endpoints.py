"""Where leaders are reached, as messages say it (KIP-853).

With voters that come and go, no configuration knows all addresses. So a leader names its listeners
in what it sends, and a node that names a leader in an answer adds its address,
on the listener that voters use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.machines.quorum.voters import Endpoint
from fencepost.wire.api import (
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    vote,
)
from fencepost.wire.message import Message

_NODE_ENDPOINTS: dict[type[Message], type[Any]] = {
    vote.VoteResponse: vote.NodeEndpoint,
    begin_quorum_epoch.BeginQuorumEpochResponse: begin_quorum_epoch.NodeEndpoint,
    end_quorum_epoch.EndQuorumEpochResponse: end_quorum_epoch.NodeEndpoint,
    fetch.FetchResponse: fetch.NodeEndpoint,
    fetch_snapshot.FetchSnapshotResponse: fetch_snapshot.NodeEndpoint,
}


def add_leader(response: Any, leader_id: int, endpoint: Endpoint | None) -> None:
    """Say in `response` where the leader is reached, if a node leads and it is known."""
    if leader_id >= 0 and endpoint is not None:
        node = _NODE_ENDPOINTS[type(response)]
        response.node_endpoints = [node(node_id=leader_id, host=endpoint.host, port=endpoint.port)]


def leader_in(response: Any, leader_id: int, listener: str) -> tuple[Endpoint, ...]:
    """What a response says of where `leader_id` is reached; for this listener, or nothing."""
    return tuple(
        Endpoint(listener, node.host, node.port)
        for node in response.node_endpoints
        if node.node_id == leader_id
    )[:1]


def endpoints_of(listeners: Iterable[Any]) -> tuple[Endpoint, ...]:
    """The endpoints that a request names, whatever they are called there."""
    return tuple(Endpoint(each.name, each.host, each.port) for each in listeners)


def listeners(struct: type[Any], endpoints: Iterable[Endpoint]) -> list[Any]:
    """Endpoints as the message says them that `struct` belongs to."""
    return [struct(name=e.name, host=e.host, port=e.port) for e in endpoints]
