"""The channel to the active controller: whom it asks, how often, and when it gives up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from fencepost.broker.cluster import controller_channel
from fencepost.broker.cluster.controller_channel import ControllerChannel, says_not_controller
from fencepost.machines.quorum.voters import Endpoint
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from fencepost.wire.api.create_topics import CreatableTopicResult, CreateTopicsResponse
from fencepost.wire.api.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

from ...timers import ManualTimers

REQUEST = BrokerHeartbeatRequest(broker_id=1)
FINE = BrokerHeartbeatResponse(is_caught_up=True)
REFUSED = BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)
OWN_ID = 1


@dataclass
class Sent:
    """A request on its way to a controller."""

    port: int
    request: Message
    answer: Callable[[Any], None]
    fail: Callable[[str], None]
    timeout_ms: int
    purpose: str


class World:
    """A node with id 1 whose peers, leader and own controller are what the test says."""

    def __init__(self, *, alone: bool = False) -> None:
        self.timers = ManualTimers()
        self.sent: list[Sent] = []
        self.node_id = OWN_ID
        self.leader_id = -1
        self.addresses = {2: 9002, 3: 9003}
        self.is_active = False
        self.served: list[Callable[[ErrorCode, Any], None]] = []
        self.told: list[tuple[ErrorCode, Any]] = []
        self.channel = ControllerChannel(
            self,  # type: ignore[arg-type]
            self,
            self.timers,
            lambda: self.timers.now_ms,
            None if alone else self,
        )

    # -- ControllerService
    def serve(self, request: Message, on_reply: Any, api_version: int, client: Any) -> None:
        self.served.append(on_reply)

    # -- LeaderView
    def address_of(self, node_id: int) -> Endpoint | None:
        port = self.addresses.get(node_id)
        return None if port is None else Endpoint("CONTROLLER", "host", port)

    # -- PeerSender
    def send(self, address, request, on_response, on_failure, timeout_ms, *, purpose=""):
        assert address[0] == "host"
        self.sent.append(Sent(address[1], request, on_response, on_failure, timeout_ms, purpose))

    # -- the test
    def ask(self, **options: Any) -> None:
        self.channel.ask(
            REQUEST, lambda error, response: self.told.append((error, response)), **options
        )

    def lead(self, node_id: int, *, active: bool = False) -> None:
        self.leader_id, self.is_active = node_id, active
        self.channel.note_leader()

    @property
    def ports(self) -> list[int]:
        return [one.port for one in self.sent]


@pytest.fixture
def world() -> World:
    return World()


def test_an_active_controller_in_this_process_is_asked_at_once(world: World) -> None:
    world.lead(OWN_ID, active=True)
    world.ask()
    assert len(world.served) == 1 and not world.sent
    world.served[0](ErrorCode.NONE, FINE)
    assert world.told == [(ErrorCode.NONE, FINE)]


def test_another_node_that_leads_is_asked_over_the_network(world: World) -> None:
    world.lead(2)
    world.ask(purpose="controller", timeout_ms=1_000)
    (sent,) = world.sent
    assert (sent.port, sent.request, sent.purpose, sent.timeout_ms) == (
        9002,
        REQUEST,
        "controller",
        1_000,
    )
    sent.answer(FINE)
    assert world.told == [(ErrorCode.NONE, FINE)]
    world.timers.advance(60_000)
    assert len(world.sent) == len(world.told) == 1


def test_an_error_that_is_not_the_controllers_place_is_an_answer(world: World) -> None:
    stale = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    world.lead(2)
    world.ask()
    world.sent[0].answer(stale)
    assert world.told == [(ErrorCode.NONE, stale)]


def test_it_waits_for_a_leader(world: World) -> None:
    world.ask()
    world.timers.advance(500)
    assert not world.sent and not world.told
    world.lead(3)
    assert world.ports == [9003], "without waiting for the next try"


def test_it_waits_until_the_own_controller_is_active(world: World) -> None:
    world.lead(OWN_ID)
    world.ask()
    world.timers.advance(500)
    assert not world.served
    world.lead(OWN_ID, active=True)
    assert len(world.served) == 1


def test_a_leader_without_an_address_is_waited_for(world: World) -> None:
    world.addresses.clear()
    world.lead(2)
    world.ask()
    world.addresses[2] = 9012
    world.timers.advance(controller_channel.RETRY_BACKOFF_MS)
    assert world.ports == [9012]


@pytest.mark.parametrize("refuse", ["fail", "answer"])
def test_what_went_wrong_is_tried_again(world: World, refuse: str) -> None:
    world.lead(2)
    world.ask()
    for attempt in range(1, 5):
        assert len(world.sent) == attempt
        sent = world.sent[-1]
        sent.fail("reset") if refuse == "fail" else sent.answer(REFUSED)
        assert len(world.sent) == attempt, "not at once"
        world.timers.advance(controller_channel.RETRY_BACKOFF_MS)
    world.sent[-1].answer(FINE)
    assert world.told == [(ErrorCode.NONE, FINE)]


def test_a_new_leader_is_asked_while_the_old_one_is_silent(world: World) -> None:
    world.lead(2)
    world.ask()
    world.lead(3)
    assert world.ports == [9002, 9003]
    world.sent[0].fail("too late to matter")
    world.timers.advance(10_000)
    assert world.ports == [9002, 9003], "the second is still under way"
    world.sent[1].answer(FINE)
    assert world.told == [(ErrorCode.NONE, FINE)]


def test_an_old_leaders_late_answer_counts_and_the_other_does_not(world: World) -> None:
    world.lead(2)
    world.ask()
    world.lead(3)
    world.sent[0].answer(FINE)
    world.sent[1].answer(BrokerHeartbeatResponse(is_fenced=True))
    assert world.told == [(ErrorCode.NONE, FINE)]


def test_an_old_leaders_late_refusal_does_not_count(world: World) -> None:
    world.lead(2)
    world.ask()
    world.lead(3)
    world.sent[0].answer(REFUSED)
    world.timers.advance(10_000)
    assert world.ports == [9002, 9003] and not world.told


def test_the_lead_may_come_to_this_node_and_leave_it(world: World) -> None:
    world.lead(2)
    world.ask()
    world.lead(OWN_ID, active=True)
    assert len(world.served) == 1
    world.is_active = False
    world.served[0](ErrorCode.NOT_CONTROLLER, None)
    world.lead(3)
    world.sent[-1].answer(FINE)
    assert world.ports == [9002, 9003] and world.told == [(ErrorCode.NONE, FINE)]


def test_it_gives_up_when_its_time_is_up(world: World) -> None:
    world.ask(timeout_ms=1_000)
    world.timers.advance(999)
    assert not world.told
    world.timers.advance(1)
    assert world.told == [(ErrorCode.REQUEST_TIMED_OUT, None)]
    world.lead(2)
    assert not world.sent


def test_it_gives_up_on_the_own_controller_too(world: World) -> None:
    """Nothing is committed while a quorum cannot be had, or a disk is slow."""
    world.lead(OWN_ID, active=True)
    world.ask(timeout_ms=1_000)
    world.timers.advance(999)
    assert not world.told
    world.timers.advance(1)
    assert world.told == [(ErrorCode.REQUEST_TIMED_OUT, None)]
    world.served[0](ErrorCode.NONE, FINE)
    assert len(world.told) == 1


def test_the_own_controllers_answer_ends_the_waiting(world: World) -> None:
    world.lead(OWN_ID, active=True)
    world.ask(timeout_ms=1_000)
    world.served[0](ErrorCode.NONE, FINE)
    world.timers.advance(1_000)
    assert world.told == [(ErrorCode.NONE, FINE)]


@pytest.mark.parametrize("timeout_ms", [0, -1])
@pytest.mark.parametrize("leader_id", [OWN_ID, 2])
def test_who_has_no_time_is_not_served(world: World, leader_id: int, timeout_ms: int) -> None:
    world.lead(leader_id, active=leader_id == OWN_ID)
    world.ask(timeout_ms=timeout_ms)
    assert world.told == [(ErrorCode.REQUEST_TIMED_OUT, None)]
    assert not world.served and not world.sent


def test_a_try_has_no_more_time_than_the_request(world: World) -> None:
    world.lead(2)
    world.ask(timeout_ms=60_000)
    world.timers.advance(58_000)
    world.sent[-1].fail("silence")
    world.timers.advance(controller_channel.RETRY_BACKOFF_MS)
    assert [one.timeout_ms for one in world.sent] == [5_000, 1_950]


def test_without_other_nodes_there_is_nobody_to_wait_for() -> None:
    world = World(alone=True)
    world.ask()
    assert world.told == [(ErrorCode.NOT_CONTROLLER, None)]
    world.lead(OWN_ID, active=True)
    world.ask()
    world.served[0](ErrorCode.NOT_CONTROLLER, None)
    assert world.told[1:] == [(ErrorCode.NOT_CONTROLLER, None)]


def test_too_many_are_turned_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_channel, "MAX_ASKED", 2)
    for _ in range(3):
        world.ask()
    assert world.told == [(ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)]


def test_when_it_is_closed_everybody_hears_so(world: World) -> None:
    world.lead(2)
    world.ask()
    world.channel.close()
    assert world.told == [(ErrorCode.NOT_CONTROLLER, None)]
    world.sent[0].answer(FINE)
    world.ask()
    assert world.told == [(ErrorCode.NOT_CONTROLLER, None)] * 2


def test_who_asks_again_while_being_answered_gets_an_answer_too(world: World) -> None:
    world.lead(2)
    told: list[Any] = []

    def on_reply(error: ErrorCode, response: Any) -> None:
        told.append(response)
        if len(told) == 1:
            world.channel.ask(REQUEST, on_reply)

    world.channel.ask(REQUEST, on_reply)
    world.sent[0].answer(FINE)
    world.sent[1].answer(FINE)
    assert told == [FINE, FINE]


def test_a_refusal_is_seen_in_every_item() -> None:
    fine, wrong = CreatableTopicResult(name="a"), CreatableTopicResult(name="b", error_code=41)
    assert says_not_controller(CreateTopicsResponse(topics=[fine, wrong]))
    assert not says_not_controller(CreateTopicsResponse(topics=[fine]))
    assert says_not_controller(REFUSED)
    assert not says_not_controller(None)
    for error in (0, int(ErrorCode.NOT_CONTROLLER)):
        partition = PartitionResult(partition_id=0, error_code=error, error_message=None)
        topic = ReplicaElectionResult(topic="t", partition_result=[partition])
        election = ElectLeadersResponse(replica_election_results=[topic])
        assert says_not_controller(election) is (error != 0), "v0 has no error at the top"
