"""Where leaders are reached, and who says so: voter sets, requests, answers, bootstrap servers."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.effects import Reply, TimerFired
from fencepost.machines.quorum import (
    QuorumConfig,
    QuorumMachine,
    QuorumState,
    Role,
    Start,
    answered,
    fetch_response,
    inputs,
    messages,
    received,
)
from fencepost.machines.quorum.endpoints import leader_in
from fencepost.machines.quorum.rules import RULES, QuorumRules
from fencepost.machines.quorum.versions import fit
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import Endpoint, VoterSet
from fencepost.sim.by_hand import ByHand
from fencepost.sim.rules import Rules
from fencepost.wire.api.begin_quorum_epoch import LeaderEndpoint
from fencepost.wire.api.fetch import FetchResponse
from fencepost.wire.errors import EncodeError
from fencepost.wire.message import Message

from .quorum_fixtures import describe
from .quorum_log import ListLog
from .quorum_stages import ask, describe_request, follower, led

ELSEWHERE = Endpoint("CONTROLLER", "elsewhere", 1234)


# -- a message that names a leader has its endpoints -------------------------------------------


def requests_to(world: ByHand) -> list[Any]:
    """One request of each kind that node 1 can be sent by node 2 at this moment."""
    config = world.machine(2).node.config
    state = QuorumState(world.machine(1).epoch, world.machine(1).leader_id)
    epoch = state.epoch
    return [
        messages.vote_request(config, 1, 2, epoch, (epoch - 1, 0), False),
        messages.begin_request(config, 1, state),
        messages.end_request(config, state, ()),
        messages.fetch_request(config, 2, epoch, (0, 0), -1),
    ]


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("role", ["leader", "follower"])
def test_answers_name_the_leaders_address(role: str, index: int) -> None:
    world = led() if role == "leader" else follower()
    leader_id = world.machine(1).leader_id
    (answer,) = ask(world, requests_to(world)[index])
    response = fetch_response(answer) if index == 3 else answer
    (node,) = response.node_endpoints
    assert (node.node_id, node.host, node.port) == (
        leader_id,
        "simulated",
        9000 + leader_id,
    )
    assert leader_in(response, leader_id, "CONTROLLER") == world.voter(leader_id).endpoints
    assert leader_in(response, leader_id + 1, "CONTROLLER") == ()


def test_requests_that_are_refused_whole_name_no_leader() -> None:
    world = led()
    for request in requests_to(world):
        request.cluster_id = "other"
        (answer,) = ask(world, request)
        response = answer if isinstance(answer, Message) else fetch_response(answer)
        assert (response.error_code, response.node_endpoints) == (104, [])


def test_leaders_say_where_they_are() -> None:
    world = led()
    state = QuorumState(1, 1)
    config = world.machine(1).node.config
    for request in (
        messages.begin_request(config, 2, state),
        messages.end_request(config, state, ()),
    ):
        (said,) = request.leader_endpoints
        assert (said.name, said.host, said.port) == ("CONTROLLER", "simulated", 9001)


def test_voters_are_addressed_with_the_disk_that_is_meant() -> None:
    world = led()
    world.crash(1)
    world.fire(2, inputs.FETCH)
    asked = [f.request for f in world.flights() if f.source == 2 and f.target == 3]
    partition = asked[-1].topics[0].partitions[0]  # type: ignore[attr-defined]
    assert partition.voter_directory_id == world.voter(3).key.directory_id
    assert partition.replica_directory_id == world.voter(2).key.directory_id


# -- what a version cannot carry ---------------------------------------------------------------


def answers() -> list[Message]:
    """One answer of each kind, with everything that a leader says."""
    world = led()
    made = []
    for request in requests_to(world):
        (answer,) = ask(world, request)
        made.append(answer if isinstance(answer, Message) else fetch_response(answer))
    return [*made, ask(world, describe_request())[0]]


@pytest.mark.parametrize("index", range(5))
def test_answers_fit_every_version(index: int) -> None:
    first = type(answers()[index])
    lowest = 4 if first is FetchResponse else first.min_version  # of what is served
    for version in range(lowest, first.max_version + 1):
        response = fit(answers()[index], version)
        assert type(response).decode(bytes(response.encode(version)), version) is not None


@pytest.mark.parametrize("index", range(5))
def test_without_fitting_old_versions_cannot_carry_them(index: int) -> None:
    response = answers()[index]
    old = 12 if "Fetch" in type(response).__name__ else type(response).min_version
    with pytest.raises(EncodeError):
        response.encode(old)


# -- where a node looks ------------------------------------------------------------------------


def test_a_voter_is_reached_where_its_set_says() -> None:
    world = led()
    machine = world.machine(2)
    assert machine.address_of(3) == Endpoint("CONTROLLER", "simulated", 9003)
    assert machine.address_of(9) is None and machine.address_of(-2) is None
    assert machine.leader_endpoints == world.voter(1).endpoints
    assert world.machine(1).leader_endpoints == world.voter(1).endpoints


def test_a_leaders_own_word_counts_more_than_the_set() -> None:
    world = led()
    machine = world.machine(2)
    request = messages.begin_request(machine.node.config, 2, QuorumState(2, 3))
    request.leader_endpoints = [
        LeaderEndpoint(name="OTHER", host="o", port=1),
        LeaderEndpoint(name=ELSEWHERE.name, host=ELSEWHERE.host, port=ELSEWHERE.port),
    ]
    world.feed(2, received(lambda _: None, request))
    assert machine.leader_id == 3
    assert machine.address_of(3) == ELSEWHERE
    assert machine.address_of(1) == Endpoint("CONTROLLER", "simulated", 9001)


def test_more_that_is_said_of_the_same_leader_counts_too() -> None:
    world = led()
    machine = world.machine(2)
    request = messages.begin_request(machine.node.config, 2, QuorumState(1, 1))
    request.leader_endpoints = [LeaderEndpoint(name="CONTROLLER", host="elsewhere", port=1234)]
    world.feed(2, received(lambda _: None, request))
    assert machine.role is Role.FOLLOWER
    assert machine.address_of(1) == ELSEWHERE
    request.leader_endpoints = []
    world.feed(2, received(lambda _: None, request))
    assert machine.address_of(1) == ELSEWHERE, "saying nothing takes nothing back"


def test_a_leader_that_no_voter_set_knows_is_followed_at_the_address_it_gives() -> None:
    world = led()
    machine = world.machine(2)
    request = messages.begin_request(machine.node.config, 2, QuorumState(2, 77))
    request.leader_endpoints = [LeaderEndpoint(name="CONTROLLER", host="elsewhere", port=1234)]
    answers: list[Any] = []
    world.feed(2, received(answers.append, request))
    assert answers[0].topics[0].partitions[0].error_code == 0
    assert machine.leader_id == 77 and machine.address_of(77) == ELSEWHERE


# -- bootstrap servers -------------------------------------------------------------------------


def stranger(servers: int, voters: VoterSet | None = None, node_id: int = 0) -> QuorumMachine:
    config = QuorumConfig(bootstrap_servers=servers, can_become_voter=False)
    history = VoterHistory(voters or VoterSet())
    return QuorumMachine(node_id, history, ListLog(), QuorumState(), config)


def targets(machine: QuorumMachine, count: int) -> list[int]:
    """The nodes that a machine asks one after another, if none answers."""
    effects = machine.step(Start([0]), 0, 0)
    asked = []
    for time in range(count):
        (sent,) = [e for e in effects if hasattr(e, "message")]
        asked.append(sent.to)  # type: ignore[attr-defined]
        effects = machine.step(
            inputs.RequestFailed(sent.to, sent.message),  # type: ignore[attr-defined]
            100 * time + 1,
            0,
        )
        if not any(hasattr(e, "message") for e in effects):
            effects = machine.step(inputs.Persisted(0), 100 * time + 99, 0)
    return asked


def test_a_node_that_knows_no_voters_asks_the_bootstrap_servers() -> None:
    assert targets(stranger(3), 5) == [-2, -3, -4, -2, -3]


def test_who_knows_voters_asks_them_behind_the_bootstrap_servers() -> None:
    assert targets(stranger(2, VoterSet.of_ids((5, 6))), 5) == [-2, -3, 5, 6, -2]


def test_observers_begin_with_different_servers() -> None:
    assert [targets(stranger(3, node_id=id_), 1) for id_ in (0, 1, 2)] == [[-2], [-3], [-4]]


def test_a_bootstrap_server_says_who_leads_and_where() -> None:
    machine = stranger(1)
    (sent,) = [e for e in machine.step(Start([0]), 0, 0) if hasattr(e, "message")]
    response = fetch_response(
        inputs.FetchBounds(
            error=inputs.ErrorCode.NOT_LEADER_OR_FOLLOWER,
            leader_id=4,
            leader_epoch=9,
            leader_endpoint=ELSEWHERE,
        )
    )
    answer = answered(-2, sent.message, response)  # type: ignore[attr-defined]
    effects = machine.step(answer, 10, 0)
    assert [e.to for e in effects if hasattr(e, "message")] == [4]
    assert (machine.role, machine.epoch, machine.leader_id) == (Role.FOLLOWER, 9, 4)
    assert machine.address_of(4) == ELSEWHERE


class KeepsAskingItsLeader(QuorumRules):
    """An observer that waits for its fetch timeout."""

    def asks_around(self, misses: int) -> bool:
        return False


@pytest.mark.parametrize(("rules", "leader_id"), [(RULES, 2), (KeepsAskingItsLeader(), 1)])
def test_an_observer_whose_leader_does_not_answer_asks_others_in_between(
    rules: QuorumRules, leader_id: int
) -> None:
    world = led(rules=Rules(quorum=rules))
    world.feed(1, inputs.Resign())
    world.settle()
    assert world.machine(2).role is Role.LEADER
    world.crash(1)
    world.wait(200)
    assert world.machine(4).leader_id == leader_id


def test_a_bootstrap_server_that_is_the_leader_is_not_fetched_from() -> None:
    """It answers as a leader does, under a name that says nothing; see the next fetch's target."""
    world = led()
    world.append(1, "lost on its way;")
    world.drop(next(f for f in world.flights() if f.target == 4))
    world.wait(5_000)
    assert world.has_converged()


@pytest.mark.parametrize("leads", [True, False])
def test_a_request_without_an_answer_counts_as_failed_in_time(leads: bool) -> None:
    """Nor does anybody say that there will be no answer: the peer has stopped in its tracks."""
    machine = stranger(3)
    (sent,) = [e for e in machine.step(Start([0]), 0, 0) if hasattr(e, "message")]
    if leads:
        bounds = inputs.FetchBounds(inputs.ErrorCode.NOT_LEADER_OR_FOLLOWER, 4, 9)
        asked = sent.message  # type: ignore[attr-defined]
        effects = machine.step(answered(-2, asked, fetch_response(bounds)), 10, 0)
        (sent,) = [e for e in effects if hasattr(e, "message")]
        assert sent.to == 4  # type: ignore[attr-defined]
    late_ms = QuorumConfig().request_timeout_ms + 10
    effects = machine.step(TimerFired(inputs.RETRY), late_ms, 0)
    (again,) = [e for e in effects if hasattr(e, "message")]
    assert again.to == (-2 if leads else -3)  # type: ignore[attr-defined]
    failed = inputs.RequestFailed(sent.to, sent.message)  # type: ignore[attr-defined]
    assert not any(hasattr(e, "message") for e in machine.step(failed, late_ms, 0)), "it is known"


def test_a_leader_that_answers_is_asked_alone() -> None:
    world = led()
    world.append(1, "lost on its way;")
    world.drop(next(f for f in world.flights() if f.target == 4))
    asked = set()
    for _ in range(400):
        asked |= {f.target for f in world.flights() if (f.source, f.kind) == (4, "request")}
        world.tick()
    assert 1 in asked and len(asked) == 2, "and one other, once"


def test_describe_names_the_voters_only_where_there_is_a_leader() -> None:
    machine = stranger(1)
    machine.step(Start([0]), 0, 0)
    (reply,) = [e for e in machine.step(describe(), 1, 0) if isinstance(e, Reply)]
    assert reply.value.nodes == []
