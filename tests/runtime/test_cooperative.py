"""Long work in pieces: lanes share the event loop among each other, and with everybody else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from fencepost.runtime.cooperative import (
    FIRST_TURN_S,
    FIRST_TURNS_S,
    PIECES_AT_ONCE,
    TURN_S,
    InOrder,
    Lane,
    Pieces,
    Scheduler,
)

PIECE_S = 0.003


class Loop:
    """An event loop whose turns the test takes, and the clock that pieces take time of."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._due.append(callback)

    call_soon_threadsafe = call_soon

    @property
    def is_idle(self) -> bool:
        return not self._due

    def turn(self) -> None:
        """Whatever is due now, not what comes to be due by that."""
        due, self._due = self._due, deque()
        for callback in due:
            callback()

    def run(self) -> None:
        """Turn by turn, until nothing is due."""
        while self._due:
            self.turn()


class World:
    """Work by name, whose pieces take `PIECE_S` each."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.scheduler = Scheduler(self.loop, lambda: self.loop.now_s)
        self.lane = self.scheduler.lane()
        self.pieces: list[str] = []
        self.done: list[str] = []
        self.unwanted: set[str] = set()

    def work(self, name: str, count: int, future: Future[None] | None = None) -> Pieces[None]:
        """So many pieces, each of which waits for `future`."""
        for _ in range(count):
            self.loop.now_s += PIECE_S
            self.pieces.append(name)
            yield future

    def begin(
        self,
        name: str,
        count: int,
        future: Future[None] | None = None,
        lane: Lane | None = None,
        at_once: int = 1,
    ) -> bool:
        return (lane or self.lane).begin(
            self.work(name, count, future),
            lambda: self.done.append(name),
            is_wanted=lambda: name not in self.unwanted,
            at_once=at_once,
        )


@pytest.fixture
def world() -> World:
    return World()


# -- lanes -----------------------------------------------------------------------------------------


def test_small_work_is_done_when_it_is_begun(world: World) -> None:
    for number in range(100):
        world.begin(f"long-{number}", 50)
    assert world.begin("small", 0), "long work that waits does not delay it"


def test_as_many_pieces_are_done_at_once_as_are_asked_for(world: World) -> None:
    assert not world.begin("a", 50, at_once=7)
    assert len(world.pieces) == 7
    assert world.begin("b", 6, at_once=7)


def test_a_turn_is_as_long_for_a_hundred_works_as_for_one(world: World) -> None:
    for number in range(100):
        assert not world.begin(f"long-{number}", 50)
    while len(world.done) < 100:
        before_s = world.loop.now_s
        world.loop.turn()
        assert world.loop.now_s - before_s <= TURN_S + PIECE_S


def test_works_of_a_lane_take_turns(world: World) -> None:
    names = ["a", "b", "c"]
    for name in names:
        world.begin(name, 12)
    while not world.done:
        world.loop.turn()
    counts = [world.pieces.count(name) for name in names]
    assert max(counts) - min(counts) <= 2


def test_a_lane_has_its_share_however_much_others_have_to_do(world: World) -> None:
    for number in range(100):
        world.begin(f"long-{number}", 50)
    world.pieces.clear()
    world.begin("partitions", 20, lane=world.scheduler.lane())
    while "partitions" not in world.done:
        world.loop.turn()
    assert len(world.pieces) <= 20 + 2 * 20, "as much for one lane as for the other"


def test_a_lane_that_had_nothing_to_do_does_not_have_two_turns(world: World) -> None:
    other = world.scheduler.lane()
    world.begin("a", 4)
    world.begin("b", 4, lane=other)
    world.loop.run()
    assert sorted(world.done) == ["a", "b"]
    before = len(world.pieces)
    world.begin("c", 3)
    world.loop.run()
    assert world.done[-1] == "c" and len(world.pieces) == before + 3
    assert world.loop.is_idle


def test_who_waits_for_a_thread_lets_others_work(world: World) -> None:
    future: Future[None] = Future()
    world.begin("waits", 1, future)
    world.begin("works", 3)
    world.loop.run()
    assert world.done == ["works"]
    future.set_result(None)
    world.loop.run()
    assert world.done == ["works", "waits"]


def test_what_a_thread_has_done_already_is_not_waited_for(world: World) -> None:
    future: Future[None] = Future()
    future.set_result(None)
    assert world.begin("a", 1, future, at_once=2), "it is done when it has begun"


def test_work_that_is_cancelled_is_closed(world: World) -> None:
    world.begin("a", 50)
    world.unwanted.add("a")
    world.loop.run()
    assert world.pieces == ["a"] and world.done == []


def test_work_that_fails_is_logged_and_over(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> Pieces[None]:
        yield from world.work("fails", 1)
        raise ValueError("unforeseen")

    world.lane.begin(failing(), lambda: world.done.append("fails"))
    world.begin("works", 3)
    world.loop.run()
    assert sorted(world.done) == ["fails", "works"]
    assert "unforeseen" in caplog.text


def test_one_callback_that_fails_does_not_stop_those_behind_it(world: World) -> None:
    world.lane.later(lambda: [][0])
    world.begin("works", 3)
    with pytest.raises(IndexError):
        world.loop.turn()
    world.loop.run()
    assert world.done == ["works"]


def test_whoever_asks_to_be_called_later_comes_behind_what_waits(world: World) -> None:
    world.begin("a", 2)
    world.lane.later(lambda: world.pieces.append("called"))
    world.begin("b", 2)
    world.loop.run()
    assert world.pieces == ["a", "b", "a", "called", "b"]


def test_whoever_waits_for_a_thread_is_called_when_it_is_done(world: World) -> None:
    future: Future[None] = Future()
    world.lane.later(lambda: world.done.append("called"), future)
    world.loop.run()
    assert world.done == []
    future.set_result(None)
    world.loop.run()
    assert world.done == ["called"]


def test_a_loop_that_is_closed_is_told_nothing(world: World) -> None:
    future: Future[None] = Future()
    world.begin("a", 1, future)

    def closed(callback: Callable[[], None]) -> None:
        raise RuntimeError("Event loop is closed")

    world.loop.call_soon_threadsafe = closed  # type: ignore[method-assign]
    future.set_result(None)
    assert world.done == []


def test_a_clock_that_stands_still_and_no_time_is_one_piece_per_turn() -> None:
    """As the simulator has it."""
    world = World()
    world.scheduler = Scheduler(world.loop, lambda: 0.0, turn_s=0.0, first_turn_s=0.0)
    world.lane = world.scheduler.lane()
    world.begin("a", 5)
    turns = 1
    while not world.loop.is_idle:
        assert len(world.pieces) == turns
        world.loop.turn()
        turns += 1
    assert world.done == ["a"]


# -- in order --------------------------------------------------------------------------------------


@pytest.fixture
def in_order(world: World) -> InOrder:
    return InOrder(world.lane)


def test_small_work_in_order_is_done_when_it_is_given(world: World, in_order: InOrder) -> None:
    in_order.add(world.work("a", PIECES_AT_ONCE - 1))
    assert len(world.pieces) == PIECES_AT_ONCE - 1 and in_order.is_idle
    in_order.when_idle(lambda: world.done.append("idle"))
    assert world.done == ["idle"]


def test_works_are_done_one_after_the_other(world: World, in_order: InOrder) -> None:
    in_order.add(world.work("first", PIECES_AT_ONCE + 5))
    in_order.add(world.work("second", 3))
    in_order.when_idle(lambda: world.done.append("idle"))
    assert "second" not in world.pieces and world.done == []
    world.loop.run()
    assert world.pieces == ["first"] * (PIECES_AT_ONCE + 5) + ["second"] * 3
    assert world.done == ["idle"] and in_order.is_idle


def test_work_given_by_work_comes_behind_it(world: World, in_order: InOrder) -> None:
    def outer() -> Pieces[None]:
        in_order.add(world.work("inner", 2))
        yield from world.work("outer", 2)

    in_order.add(outer())
    world.loop.run()
    assert world.pieces == ["outer", "outer", "inner", "inner"]


def test_work_that_waits_for_a_thread_holds_up_what_is_behind_it(
    world: World, in_order: InOrder
) -> None:
    future: Future[None] = Future()
    in_order.add(world.work("waits", 1, future))
    in_order.add(world.work("behind", 1))
    world.loop.run()
    assert world.pieces == ["waits"]
    future.set_result(None)
    world.loop.run()
    assert world.pieces == ["waits", "behind"]


def test_work_in_order_that_fails_does_not_stop_what_is_behind_it(
    world: World, in_order: InOrder
) -> None:
    def failing() -> Pieces[None]:
        yield None
        raise ValueError("unforeseen")

    in_order.add(failing())
    in_order.add(world.work("behind", 1))
    world.loop.run()
    assert world.pieces == ["behind"] and in_order.is_idle


def test_what_is_left_undone_is_closed(world: World, in_order: InOrder) -> None:
    future: Future[None] = Future()

    def waiting() -> Pieces[None]:
        try:
            yield future
            world.done.append("too late")
        finally:
            world.done.append("closed")

    in_order.add(waiting())
    in_order.add(world.work("behind", 1))
    in_order.close()
    future.set_result(None)
    world.loop.run()
    assert world.done == ["closed"] and world.pieces == []
    in_order.add(world.work("later", 1))
    world.loop.run()
    assert world.pieces == []


def test_work_may_close_what_it_is_in(world: World, in_order: InOrder) -> None:
    def closing() -> Pieces[None]:
        yield None
        in_order.close()
        world.done.append("to the end of its piece")
        yield None
        world.done.append("too late")

    in_order.add(closing())
    in_order.add(world.work("behind", 1))
    world.loop.run()
    assert world.done == ["to the end of its piece"] and world.pieces == []


def test_what_begins_in_one_turn_is_worked_on_at_once_for_so_long_together() -> None:
    """However much begins; and each does one piece, which may have to keep what it was given."""
    loop = Loop()
    scheduler = Scheduler(loop, lambda: loop.now_s)
    lane = scheduler.lane()
    pieces: list[int] = []
    piece_s = FIRST_TURN_S / 4

    def work(number: int) -> Pieces[None]:
        for _ in range(10):
            pieces.append(number)
            loop.now_s += piece_s
            yield None

    many = 40
    for number in range(many):
        assert not lane.begin(work(number))
    at_once = round(FIRST_TURNS_S / piece_s)
    assert at_once < len(pieces) <= at_once + many
    assert set(pieces) == set(range(many))
    loop.turn()
    pieces.clear()
    lane.begin(work(many))
    assert pieces.count(many) >= FIRST_TURN_S / piece_s - 1, "another turn, another share"
