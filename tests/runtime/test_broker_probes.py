"""A broker whose process has ended is fenced before its session ends; no other broker is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fencepost.machines.controller import Controller
from fencepost.runtime.broker_probes import LISTENERS_MAX, REFUSALS_NEEDED, BrokerProbes
from fencepost.wire.api.broker_registration import Listener
from fencepost.wire.errors import ErrorCode

from ..machines.controller_fixtures import SESSION_MS, Bench
from ..timers import ManualTimers

INTERVAL_MS = 100
OWN_ID = 9


class World:
    """A controller with brokers 1 to 3, a clock, and a network that answers as it is told."""

    def __init__(self, interval_ms: int = INTERVAL_MS) -> None:
        self.bench = Bench()
        self.bench.brokers(1, 2, 3)
        self.bench.create("t", assignments=[(0, [1, 2, 3])])
        self.timers = ManualTimers()
        self.timers.now_ms = self.bench.now_ms
        self.is_active = False
        self.connections: dict[int, object] = {}
        self.asked: list[Sequence[tuple[str, int]]] = []
        self.waiting: list[Callable[[bool], None]] = []
        self.probes = BrokerProbes(
            self, self, self.probe, own_id=OWN_ID, interval_ms=interval_ms, session_ms=SESSION_MS
        )

    # The ports and the host.

    def now_ms(self) -> int:
        return self.timers.now_ms

    @property
    def controller(self) -> Controller | None:
        return self.bench.controller if self.is_active else None

    def submit(self, decide: Callable[[Controller], Any], on_reply: Callable[..., None]) -> None:
        on_reply(ErrorCode.NONE, self.bench.do(decide(self.bench.controller)))

    def probe(
        self, addresses: Sequence[tuple[str, int]], on_result: Callable[[bool], None]
    ) -> None:
        self.asked.append(addresses)
        self.waiting.append(on_result)

    # What happens.

    def activate(self, *heard: int) -> World:
        """The controller becomes active, and hears of these brokers."""
        self.is_active = True
        self.probes.look()
        for broker_id in heard:
            self.hear(broker_id)
        self.waiting.clear()
        self.asked.clear()
        return self

    def hear(self, broker_id: int, **changes: Any) -> None:
        """A heartbeat comes over the broker's connection, a new one if it was lost."""
        self.bench.now_ms = self.now_ms()
        epoch = self.bench.image.brokers[broker_id].epoch
        connection = self.connections.setdefault(broker_id, object())
        self.probes.heard(broker_id, epoch, connection)
        self.bench.heartbeat(broker_id, **changes)

    def lose(self, broker_id: int) -> None:
        """The broker's connection is closed."""
        self.probes.disconnected(self.connections.pop(broker_id))

    def answer(self, refused: bool) -> None:
        """All probes that are under way find this; then it is time for the next."""
        waiting, self.waiting = self.waiting, []
        for on_result in waiting:
            on_result(refused)
        self.timers.advance(INTERVAL_MS)

    def fenced(self) -> set[int]:
        return {id_ for id_, one in self.bench.image.brokers.items() if one.fenced}


@pytest.fixture
def world() -> World:
    return World().activate(1, 2, 3)


def test_a_broker_that_is_gone_is_fenced_and_others_lead(world: World) -> None:
    world.lose(1)
    assert world.asked == [[("host1", 9092)]]
    for _ in range(REFUSALS_NEEDED):
        assert world.fenced() == set()
        world.answer(refused=True)
    assert world.fenced() == {1}
    assert world.bench.partition("t").leader == 2
    assert world.probes.suspects == []
    assert world.now_ms() < world.bench.controller.next_session_look_ms(0)


def test_who_accepts_or_says_nothing_keeps_its_session(world: World) -> None:
    world.lose(1)
    for refused in (True, False) * 20:
        world.answer(refused)
    assert world.fenced() == set() and world.probes.suspects == [1]


def test_probing_ends_when_the_session_would(world: World) -> None:
    world.lose(1)
    for _ in range(SESSION_MS // INTERVAL_MS + 1):
        world.answer(refused=False)
    assert world.probes.suspects == [] and not world.waiting


def test_who_is_heard_of_meanwhile_is_not_gone(world: World) -> None:
    world.lose(1)
    world.answer(refused=True)
    world.hear(1)
    assert world.probes.suspects == []
    world.answer(refused=True)
    assert world.fenced() == set()


def test_a_heartbeat_that_came_another_way_counts_too(world: World) -> None:
    """As in a combined node, or one that the controller has answered and not yet tracked."""
    world.lose(1)
    world.answer(refused=True)
    world.bench.now_ms = world.now_ms()
    world.bench.heartbeat(1)
    world.answer(refused=True)
    assert world.fenced() == set()


def test_another_connection_may_close(world: World) -> None:
    world.probes.disconnected(object())
    assert world.probes.suspects == []
    first = world.connections.pop(1)
    world.hear(1)  # over another connection
    world.probes.disconnected(first)
    assert world.probes.suspects == []


def test_a_new_controller_looks_for_everybody_it_has_not_heard_of() -> None:
    """The controller that led before may have gone together with a broker of its node."""
    world = World()
    world.is_active = True
    world.probes.look()
    assert world.probes.suspects == [1, 2, 3]
    world.hear(2)
    world.hear(3)
    for _ in range(REFUSALS_NEEDED):
        world.answer(refused=True)
    assert world.fenced() == {1}


def test_a_controller_that_leads_no_more_fences_no_broker(world: World) -> None:
    world.lose(1)
    world.answer(refused=True)
    world.is_active = False
    world.probes.look()
    world.answer(refused=True)
    assert world.fenced() == set() and world.probes.suspects == []


def test_a_new_incarnation_is_not_taken_for_the_one_that_is_gone(world: World) -> None:
    world.lose(1)
    world.answer(refused=True)
    world.bench.fence(1)
    assert world.bench.register(1, life=2).error_code == 0
    world.bench.heartbeat(1)
    world.answer(refused=False)
    assert world.fenced() == set() and world.probes.suspects == []


def test_who_was_fenced_by_mistake_is_not_fenced_again(world: World) -> None:
    """A firewall refuses for it: one election, and no more."""
    world.lose(1)
    for _ in range(REFUSALS_NEEDED):
        world.answer(refused=True)
    assert world.fenced() == {1}
    world.hear(1)
    assert world.fenced() == set()
    world.lose(1)
    assert world.probes.suspects == []
    world.bench.fence(1)
    world.bench.register(1, life=2)
    world.hear(1)
    world.lose(1)
    assert world.probes.suspects == [1], "it has registered again"


def test_heartbeats_of_strangers_move_nothing(world: World) -> None:
    mine = object()
    world.probes.heard(1, world.bench.image.brokers[1].epoch - 1, mine)
    world.probes.heard(77, 1, mine)
    world.probes.disconnected(mine)
    assert world.probes.suspects == []


def test_all_listeners_have_to_refuse_and_too_many_are_not_looked_at() -> None:
    def listeners(count: int) -> list[Listener]:
        return [Listener(name=f"L{n}", host="h", port=n + 1) for n in range(count)]

    world = World()
    world.bench.brokers(4, listeners=listeners(2))
    world.bench.brokers(5, listeners=listeners(LISTENERS_MAX + 1))
    world.activate(1, 2, 3, 4, 5)
    world.lose(4)
    assert world.asked == [[("h", 1), ("h", 2)]]
    world.lose(5)
    assert world.probes.suspects == [4]


def test_the_own_broker_and_fenced_ones_are_not_probed() -> None:
    world = World()
    world.bench.brokers(OWN_ID)
    world.bench.fence(3)
    world.is_active = True
    world.probes.look()
    assert world.probes.suspects == [1, 2]


def test_it_can_be_switched_off() -> None:
    world = World(interval_ms=0).activate(1, 2, 3)
    world.lose(1)
    assert world.probes.suspects == [] and not world.asked
