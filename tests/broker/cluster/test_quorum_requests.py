"""Where answers say the leader is: on the listener that the request came by."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker.cluster.quorum_requests import told_on
from fencepost.machines.quorum.voters import Endpoint, on_listener
from fencepost.wire.api.fetch import FetchResponse, NodeEndpoint
from fencepost.wire.api.update_raft_voter import CurrentLeader, UpdateRaftVoterResponse
from fencepost.wire.api.vote import NodeEndpoint as NodeOfVote, VoteResponse

LEADER = 3
ENDPOINTS = (Endpoint("PLAIN", "h3", 9093), Endpoint("SECURE", "h3", 9094))


class FakeMachine:
    """A node that uses the listener PLAIN and follows node 3."""

    leader_id = LEADER

    @property
    def node(self) -> Any:
        return self

    @property
    def config(self) -> Any:
        return type("Config", (), {"listener": "PLAIN"})

    def leader_endpoint_on(self, listener: str) -> Endpoint | None:
        return on_listener(listener, ENDPOINTS)


def told(listener: str, response: Any) -> Any:
    machine: Any = FakeMachine()
    return told_on(listener, machine, response)


@pytest.mark.parametrize(
    ("listener", "ports"), [("plain", [9093]), ("Secure", [9094]), ("OTHER", [])]
)
def test_a_leader_is_told_of_on_the_listener_that_was_asked(listener: str, ports: list[int]):
    vote = VoteResponse(node_endpoints=[NodeOfVote(node_id=LEADER, host="h3", port=9093)])
    fetch = FetchResponse(node_endpoints=[NodeEndpoint(node_id=LEADER, host="h3", port=9093)])
    for response in (vote, fetch):
        assert [one.port for one in told(listener, response).node_endpoints] == ports


def test_a_leader_of_before_has_no_address_on_another_listener():
    response = VoteResponse(node_endpoints=[NodeOfVote(node_id=2, host="h2", port=9093)])
    assert told("SECURE", response).node_endpoints == []


@pytest.mark.parametrize(("listener", "port"), [("PLAIN", 9093), ("SECURE", 9094), ("OTHER", 0)])
def test_a_voter_that_moves_is_told_on_its_listener_too(listener: str, port: int):
    leader = CurrentLeader(leader_id=LEADER, leader_epoch=1, host="h3", port=9093)
    response = UpdateRaftVoterResponse(current_leader=leader)
    assert told(listener, response).current_leader.port == port
    assert told(listener, UpdateRaftVoterResponse()) == UpdateRaftVoterResponse()
