"""Work elsewhere: when it begins, whose result counts, and what becomes of it otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.machines.coordinator import Decision, WorkResult
from fencepost.wire.errors import ErrorCode

from .coordinator_world import CoordinatorWorld

NAME = ("toy", "sum")
NONE = ErrorCode.NONE


class Threads:
    """Runs nothing until it is asked to, in any order."""

    def __init__(self) -> None:
        self.begun: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def run(self, compute: Callable[[], None], done: Callable[[], None]) -> None:
        self.begun.append((compute, done))

    def finish(self, which: int = 0) -> None:
        compute, done = self.begun.pop(which)
        compute()
        done()


class WorkWorld(CoordinatorWorld):
    """A coordinator whose decisions begin work, and what their results were."""

    def __init__(self, **said: Any) -> None:
        self.threads = Threads()
        self.results: list[WorkResult] = []
        super().__init__(elsewhere=self.threads.run, **said)

    def begin(
        self, *spec: int, name: tuple[str, ...] = NAME, run: Callable[[Any], Any] = sum
    ) -> int:
        """A request whose decision has the spec summed up, and sets "sum" to the result."""

        def on_done(result: WorkResult, wall_ms: int) -> Decision[Any]:
            self.results.append(result)
            return Decision([("sum", str(result.value))] if result.error is None else [])

        def decide(toy: Any, token: Any) -> Decision[Any]:
            decision: Decision[Any] = toy.decide_set(token, ("spec", str(spec)))
            decision.begin_work(name, run, spec, on_done)
            return decision

        return self.ask(decide)

    def drop(self) -> None:
        def decide(toy: Any, token: Any) -> Decision[Any]:
            decision: Decision[Any] = Decision()
            decision.drop_work(NAME)
            return decision

        self.ask(decide)

    @property
    def sum(self) -> str | None:
        return self.toy.texts.get("sum", (None,))[0]


@pytest.fixture
def world() -> WorkWorld:
    world = WorkWorld()
    world.start()
    return world


def test_a_result_is_decided_about_and_the_request_did_not_wait_for_it(world: WorkWorld) -> None:
    token = world.begin(1, 2)
    world.commit()
    assert world.replies[token] == (NONE, "set")
    assert (world.sum, world.coordinator.works_elsewhere) == (None, 1)
    world.threads.finish()
    assert (world.sum, world.coordinator.works_elsewhere) == ("3", 0)
    assert world.records() == [("spec", "(1, 2)"), ("sum", "3")]


def test_without_threads_it_is_done_at_once() -> None:
    plain = CoordinatorWorld()
    plain.start()
    results: list[WorkResult] = []

    def decide(toy: Any, token: Any) -> Decision[Any]:
        decision: Decision[Any] = toy.decide_set(token, ("spec", "1"))
        on_done = lambda result, wall_ms: results.append(result) or Decision()  # noqa: E731
        decision.begin_work(NAME, sum, (4, 5), on_done)
        return decision

    plain.ask(decide)
    assert results == [WorkResult(9)]


def test_work_of_a_refused_decision_does_not_begin() -> None:
    world = WorkWorld(followers=1)
    world.start()
    world.set_in_sync(1)
    token = world.begin(1)
    assert world.replies[token][0] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.threads.begun == []


def test_the_last_begun_of_a_name_counts_and_one_is_done_at_a_time(world: WorkWorld) -> None:
    for number in (1, 2, 3):
        world.begin(number)
    assert len(world.threads.begun) == 1, "the others wait, and the third replaces the second"
    assert world.coordinator.works_elsewhere == 2
    world.threads.finish()
    assert world.results == []
    world.threads.finish()
    assert (world.sum, world.threads.begun) == ("3", [])


def test_works_of_different_names_end_in_any_order(world: WorkWorld) -> None:
    world.begin(1, name=("toy", "a"))
    world.begin(2, name=("toy", "b"))
    world.threads.finish(1)
    world.threads.finish(0)
    assert [result.value for result in world.results] == [2, 1]


def test_what_is_dropped_is_computed_and_not_looked_at(world: WorkWorld) -> None:
    world.begin(1)
    world.begin(2)
    world.drop()
    world.threads.finish()
    assert (world.results, world.threads.begun) == ([], [])
    world.begin(3)
    world.threads.finish()
    assert world.sum == "3"


def test_what_is_begun_again_while_the_dropped_one_is_done_counts(world: WorkWorld) -> None:
    world.begin(1)
    world.drop()
    world.begin(2)
    world.threads.finish()
    assert world.results == []
    world.threads.finish()
    assert world.sum == "2"


def test_an_exception_on_the_thread_is_a_result(world: WorkWorld) -> None:
    def fail(spec: Any) -> None:
        raise ZeroDivisionError("no such assignment")

    world.begin(1, run=fail)
    world.threads.finish()
    [result] = world.results
    assert isinstance(result.error, ZeroDivisionError)
    assert world.sum is None
    world.begin(2)
    world.threads.finish()
    assert world.sum == "2"


def test_a_coordinator_that_is_closed_hears_of_no_result(world: WorkWorld) -> None:
    world.begin(1)
    world.begin(2)
    closed = world.coordinator
    world.follow(2)
    world.threads.finish()
    assert (world.results, world.threads.begun, closed.works_elsewhere) == ([], [], 0)
    world.start(3)
    world.begin(5)
    world.threads.finish()
    assert world.sum == "5"


def test_the_result_of_one_that_was_closed_is_not_the_next_ones(world: WorkWorld) -> None:
    world.begin(1)
    world.follow(2)
    world.start(3)
    world.begin(2)
    world.threads.finish(1)
    world.threads.finish(0)
    assert [result.value for result in world.results] == [2]


def test_a_coordinator_that_leads_on_takes_the_result(world: WorkWorld) -> None:
    world.begin(1)
    world.lead(2)
    world.threads.finish()
    assert world.sum == "1"


def test_what_follows_from_a_result_is_tried_again_while_the_log_refuses() -> None:
    world = WorkWorld(followers=1)
    world.start()
    world.begin(4)
    world.commit()
    world.set_in_sync(1)
    world.threads.finish()
    assert (world.sum, len(world.results)) == (None, 1)
    world.set_in_sync(1, 2)
    world.advance(500)
    world.commit()
    assert (world.sum, len(world.results)) == ("4", 2)
