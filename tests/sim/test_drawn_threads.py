"""Work of a simulated broker's coordinators: its order and delays come from the seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fencepost.machines.coordinator import WorkResult
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.runtime.coordinator import Coordinator, CoordinatorState
from fencepost.sim.brokers.broker import SimBroker
from fencepost.sim.run import Plan, Run
from fencepost.sim.tape import Tape

from .test_brokers import SMALL

WORKS = range(6)
STEPS_MAX = 200_000


def coordinated(seed: int) -> tuple[Run, SimBroker, Coordinator[GroupCoordinator]]:
    """A world in which a broker coordinates groups."""
    base = replace(SMALL, brokers=1, replicas=1, committers=1)
    run = Run(Tape(seed), Plan(base=base, draws_options=False))
    run.go()
    [broker] = run.world.brokers.values()
    active = [one for one in broker.groups.coordinators() if one.state is CoordinatorState.ACTIVE]
    return run, broker, active[0]


def begin(run: Run, coordinator: Coordinator[GroupCoordinator]) -> list[tuple[int, int]]:
    """Begin work; what has ended since, and after how many microseconds, is put in the list."""
    ended: list[tuple[int, int]] = []
    began_us = run.world.now_us

    def on_done(result: WorkResult, wall_ms: int) -> Decision:
        ended.append((result.value, run.world.now_us - began_us))
        return Decision()

    def decide(machine: GroupCoordinator) -> Decision:
        decision = Decision()
        for number in WORKS:
            decision.begin_work(("made up", str(number)), lambda spec: spec, number, on_done)
        return decision

    coordinator.tell(decide)
    return ended


def ended_in(seed: int) -> list[tuple[int, int]]:
    run, _, coordinator = coordinated(seed)
    ended = begin(run, coordinator)
    assert ended == [], "nothing is done within the decision"
    for _ in range(STEPS_MAX):
        if len(ended) == len(WORKS) or not run.world.step():
            break
    assert sorted(number for number, _ in ended) == list(WORKS)
    return ended


def test_a_seed_has_one_order_and_another_seed_another() -> None:
    first = ended_in(1)
    assert ended_in(1) == first
    others: list[Any] = [ended_in(2), ended_in(3)]
    assert any(other != first for other in others)
    assert any([number for number, _ in one] != list(WORKS) for one in (first, *others))


def test_work_of_a_broker_that_was_killed_is_never_done() -> None:
    run, broker, coordinator = coordinated(1)
    ended = begin(run, coordinator)
    broker.kill()
    until_us = run.world.now_us + 20_000_000
    for _ in range(STEPS_MAX):
        if run.world.now_us >= until_us or not run.world.step():
            break
    assert ended == []
