"""Requests that change the voters of a quorum (KIP-853), as an operator's tool sends them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.machines.quorum import AppendOutcome, received
from fencepost.machines.quorum.endpoints import listeners
from fencepost.machines.quorum.inputs import UpgradeKRaftVersion
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey
from fencepost.sim.boot import CLUSTER_ID, endpoint_of
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest, Listener
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

if TYPE_CHECKING:
    from fencepost.sim.node import SimNode

OnError = Callable[[ErrorCode], None]


def add_voter(
    leader: SimNode,
    joining: SimNode,
    then: OnError,
    timeout_ms: int = 0,
    endpoints: Sequence[Endpoint] = (),
) -> None:
    """Ask `leader` to add a node, with the disk that it has now, at its own or other endpoints."""
    request = AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        timeout_ms=timeout_ms,
        voter_id=joining.id,
        voter_directory_id=joining.directory_id,
        listeners=listeners(Listener, endpoints or (endpoint_of(joining.id),)),
    )
    _ask(leader, request, then)


def remove_voter(leader: SimNode, key: ReplicaKey, then: OnError) -> None:
    """Ask `leader` to remove a voter."""
    request = RemoveRaftVoterRequest(
        cluster_id=CLUSTER_ID, voter_id=key.id, voter_directory_id=key.directory_id
    )
    _ask(leader, request, then)


def upgrade(leader: SimNode, then: OnError, level: int = 1) -> None:
    """Ask `leader` to raise kraft.version."""

    def told(outcome: AppendOutcome) -> None:
        then(ErrorCode(outcome.error))

    input_ = UpgradeKRaftVersion(told, level, leader.machine.epoch)
    leader.world.guard(lambda: leader.feed(input_), leader)


def _ask(leader: SimNode, request: Message, then: OnError) -> None:
    def told(response: Any) -> None:
        then(ErrorCode(response.error_code))

    leader.world.guard(lambda: leader.feed(received(told, request)), leader)
