"""The simulated network: what a link that is cut, lossy or clogged does to messages, each way."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.quorum.inputs import RequestFailed
from fencepost.sim.network import RESET_US, TIMEOUT_SPREAD_US, Link
from fencepost.sim.options import Options
from fencepost.sim.tape import Tape
from fencepost.sim.world import World

WAY_US = 1_000
"""The longest that a message takes over a link as it is in the beginning."""
ALWAYS = 1_000
"""Per mille."""


class Ends:
    """A follower that asks its leader; only what becomes of this request is looked at.

    What the network draws is 0, unless `draw` says otherwise.
    """

    def __init__(self) -> None:
        self.world = world = World(Tape(recorded={}), Options(faults=(), write_every_ms=0))
        for node in world.nodes.values():
            node.start()
        world.run_until(8_000_000)
        leader = world.leader()
        assert leader is not None
        self.leader = leader
        self.follower = next(node for node in world.nodes.values() if node is not leader)
        self.arrived: list[int] = []
        self.heard: list[tuple[int, Any]] = []
        self.request = self.follower.machine.following.fetch_request()
        self.request.max_wait_ms = 0
        self._listen()

    def _listen(self) -> None:
        fed_leader, fed_follower = self.leader.feed, self.follower.feed

        def at_leader(input_: Any) -> None:
            if getattr(input_, "request", None) is self.request:
                self.arrived.append(self.world.now_us - self.began_us)
            fed_leader(input_)

        def at_follower(input_: Any) -> None:
            if getattr(input_, "request", None) is self.request:
                self.heard.append((self.world.now_us - self.began_us, input_))
            fed_follower(input_)

        self.leader.feed = at_leader  # type: ignore[method-assign]
        self.follower.feed = at_follower  # type: ignore[method-assign]

    @property
    def there(self) -> tuple[int, int]:
        """The way of the request."""
        return self.follower.id, self.leader.id

    @property
    def back(self) -> tuple[int, int]:
        """The way of the answer."""
        return self.leader.id, self.follower.id

    def link(self, way: tuple[int, int]) -> Link:
        """The link that goes this way."""
        return self.world.network.links[way]

    def draw(self, *numbers: int) -> None:
        """What the network draws next."""
        self.world.network._lane = Tape(recorded={"network": numbers}).lane("network")

    def ask(self) -> None:
        """Send the request now."""
        self.began_us = self.world.now_us
        self.world.network.request(self.follower, self.leader.id, self.request)

    def wait(self, us: int) -> None:
        """Let time pass."""
        self.world.run_until(self.world.now_us + us)

    @property
    def timeout_us(self) -> int:
        return self.world.options.request_timeout_ms * 1_000

    def check_timed_out(self) -> None:
        """The sender gets nothing until its request has timed out, and then the failure, once."""
        self.wait(self.timeout_us - 1 - (self.world.now_us - self.began_us))
        assert self.heard == []
        self.wait(2 * WAY_US + TIMEOUT_SPREAD_US)
        [(_, input_)] = self.heard
        assert isinstance(input_, RequestFailed) and not input_.is_refused

    def check_reset(self) -> None:
        """The sender gets a failure soon, because its connection was reset."""
        self.wait(2 * WAY_US + RESET_US)
        [(_, input_)] = self.heard
        assert isinstance(input_, RequestFailed) and not input_.is_refused

    def check_answered(self) -> None:
        """The answer comes, once."""
        self.wait(2 * WAY_US)
        [(_, input_)] = self.heard
        assert not isinstance(input_, RequestFailed)


@pytest.fixture
def ends() -> Ends:
    return Ends()


def test_a_link_that_is_well_brings_request_and_answer(ends: Ends) -> None:
    ends.ask()
    ends.check_answered()
    assert len(ends.arrived) == 1


def test_nothing_passes_a_cut_link_until_it_is_healed(ends: Ends) -> None:
    ends.world.network.cut(*ends.there)
    ends.ask()
    ends.check_timed_out()
    assert ends.arrived == []
    ends.world.network.reconnect(*ends.there)
    ends.heard.clear()
    ends.ask()
    ends.check_answered()


def test_what_is_sent_into_a_cut_is_lost_although_the_link_is_healed(ends: Ends) -> None:
    ends.world.network.cut(*ends.there)
    ends.ask()
    ends.world.network.reconnect(*ends.there)
    ends.check_timed_out()
    assert ends.arrived == []


def test_a_link_that_is_cut_one_way_brings_the_request_and_not_the_answer(ends: Ends) -> None:
    ends.world.network.cut(*ends.back)
    ends.ask()
    ends.check_timed_out()
    assert len(ends.arrived) == 1


@pytest.mark.parametrize(("way", "arrives"), [("there", 0), ("back", 1)])
def test_what_is_on_its_way_when_the_link_is_cut_does_not_arrive(
    ends: Ends, way: str, arrives: int
) -> None:
    ends.link(getattr(ends, way)).delay_us = 50_000
    ends.ask()
    ends.wait(20_000)
    ends.world.network.cut(*getattr(ends, way))
    ends.check_timed_out()
    assert len(ends.arrived) == arrives


@pytest.mark.parametrize(("way", "arrives"), [("there", 0), ("back", 1)])
def test_a_lossy_link_loses_what_it_is_given_at_its_rate(
    ends: Ends, way: str, arrives: int
) -> None:
    ends.link(getattr(ends, way)).lost = ALWAYS
    ends.ask()
    ends.check_reset()
    assert len(ends.arrived) == arrives


def test_what_is_lost_below_its_rate_arrives(ends: Ends) -> None:
    ends.link(ends.there).lost = 300
    ends.draw(699)
    ends.ask()
    ends.check_answered()


def test_a_loss_is_told_by_a_reset_or_not_before_the_timeout(ends: Ends) -> None:
    ends.link(ends.there).lost = 300
    ends.draw(700, 1)
    ends.ask()
    ends.check_timed_out()
    ends.heard.clear()
    ends.draw(700, 0)
    ends.ask()
    ends.check_reset()
    assert ends.arrived == []


def test_a_request_that_is_doubled_arrives_twice_and_is_answered_once(ends: Ends) -> None:
    ends.link(ends.there).doubled = ALWAYS
    ends.ask()
    ends.check_answered()
    assert len(ends.arrived) == 2


@pytest.mark.parametrize("overtakes", [False, True])
def test_what_is_sent_later_arrives_later_unless_it_overtakes(ends: Ends, overtakes: bool) -> None:
    link = ends.link(ends.there)
    link.delay_us = 50_000
    ends.world.network.request(
        ends.follower, ends.leader.id, ends.follower.machine.following.fetch_request()
    )
    link.delay_us, link.overtaken = 0, ALWAYS if overtakes else 0
    ends.ask()
    ends.wait(60_000)
    assert (ends.arrived[0] < 50_000) == overtakes


def test_what_a_clogged_link_is_given_arrives_when_it_is_free(ends: Ends) -> None:
    ends.link(ends.there).clogged_until_us = ends.world.now_us + 70_000
    ends.ask()
    ends.wait(69_999)
    assert ends.arrived == []
    ends.check_answered()


def test_a_healed_network_loses_cuts_and_delays_nothing(ends: Ends) -> None:
    link = ends.link(ends.there)
    link.lost, link.is_cut, link.clogged_until_us = ALWAYS, True, ends.world.now_us + 90_000_000
    ends.world.network.heal()
    ends.wait(WAY_US)
    ends.ask()
    ends.check_answered()


def test_a_connection_that_was_forgotten_brings_neither_request_nor_answer(ends: Ends) -> None:
    for way, arrives in ((ends.there, 0), (ends.back, 1)):
        ends.arrived.clear()
        ends.heard.clear()
        ends.link(way).delay_us = 50_000
        ends.ask()
        ends.wait(20_000)
        ends.world.network.forget_all(ends.leader.id if arrives else ends.follower.id)
        ends.link(way).delay_us = 0
        ends.check_timed_out()
        assert len(ends.arrived) == arrives


@pytest.mark.parametrize("is_told", [True, False])
def test_the_death_of_whom_was_asked_is_told_by_a_reset_or_not_before_the_timeout(
    ends: Ends, is_told: bool
) -> None:
    ends.link(ends.back).delay_us = 50_000
    ends.ask()
    ends.wait(20_000)
    ends.world.network.connections_lost(ends.leader.id, is_told)
    ends.world.network.cut(*ends.back)
    if is_told:
        ends.check_reset()
    else:
        ends.check_timed_out()
