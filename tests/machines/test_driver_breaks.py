"""A machine that breaks down goes no further, and no other machine breaks down with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.machines.driver import Driver
from fencepost.machines.effects import (
    Append,
    DiskFailed,
    Effect,
    Fail,
    Persist,
    Persisted,
    Reply,
    SendAfterPersist,
    Tell,
    Truncate,
)


class Obeying:
    """Does what its inputs are: effects, or errors."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        self.heard.append(input_)
        if isinstance(input_, DiskFailed):
            return [Reply("waiting", "refused")]
        if isinstance(input_, Exception):
            raise input_
        if isinstance(input_, Persisted):
            return []
        return list(input_)


class Shell:
    """Ports that note what they are asked for; truncating is what they cannot do."""

    def __init__(self) -> None:
        self.driver = Driver(self)  # type: ignore[arg-type]
        self.failures: list[tuple[Any, str]] = []
        self.replies: list[Any] = []
        self.sent: list[Any] = []
        self.on_reply: Any = None

    def now_ms(self) -> int:
        return 0

    def wall_ms(self) -> int:
        return 0

    def append(self, key: Any, work: Append, wall_ms: int) -> int:
        return 7

    def request_flush(self, key: Any) -> None:
        pass

    def truncate(self, key: Any, work: Truncate) -> int:
        raise LookupError("there is no such offset")

    def send(self, key: Any, to: Any, message: Any) -> None:
        self.sent.append(message)

    def reply(self, token: Any, value: Any) -> None:
        self.replies.append(value)
        if self.on_reply is not None:
            self.on_reply()

    def tell(self, machine: Any, input_: Any) -> None:
        self.driver.feed(machine, input_)

    def stepped(self, key: Any, machine: Any) -> None:
        pass

    def failed(self, key: Any, reason: str) -> None:
        self.failures.append((key, reason))
        if key == "answers":
            self.driver.disk_failed(key, reason)


def shell(*keys: str) -> Shell:
    made = Shell()
    for key in keys:
        made.driver.add(key, Obeying())
    return made


def raising(error: Exception) -> Callable[[Any, int, int], list[Effect]]:
    def step(input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        raise error

    return step


CUT = [Persist(Truncate(3))]


@pytest.mark.parametrize(
    ("input_", "error"), [(AssertionError("as we left it"), AssertionError), (CUT, LookupError)]
)
def test_a_machine_whose_step_goes_wrong_is_stepped_no_more(
    input_: Any, error: type[Exception]
) -> None:
    world = shell("a", "b")
    with pytest.raises(error):
        world.driver.feed("a", input_)
    ((key, reason),) = world.failures
    assert key == "a" and reason.startswith(f"{error.__name__}: ")
    world.driver.feed("a", [Reply("t", "a goes on")])
    world.driver.feed("b", [Reply("t", "b goes on")])
    assert world.replies == ["b goes on"] and len(world.failures) == 1


def test_what_it_held_back_never_leaves() -> None:
    world = shell("a")
    world.driver.feed("a", [Persist(Append([b""], 1)), SendAfterPersist(2, "we hold it")])
    with pytest.raises(LookupError):
        world.driver.feed("a", CUT)
    world.driver.persisted("a", 7)
    assert world.sent == []


def test_a_machine_that_gives_up_says_nothing_more() -> None:
    world = shell("a")
    world.driver.feed("a", [Persist(Append([b""], 1)), SendAfterPersist(2, "we hold it")])
    world.driver.feed("a", [Fail("it makes no sense")])
    world.driver.persisted("a", 7)
    assert world.failures == [("a", "it makes no sense")]
    assert world.sent == []


def test_it_hears_of_its_disk_and_refuses_whoever_waits() -> None:
    world = shell("answers")
    with pytest.raises(AssertionError, match="as we left it"):
        world.driver.feed("answers", AssertionError("as we left it"))
    assert world.replies == ["refused"]


def test_it_is_given_up_once_also_if_it_breaks_down_over_its_disk() -> None:
    world = shell("a")
    for heard in (AssertionError("first"), AssertionError("of the disk")):
        world.driver.machine("a").step = raising(heard)  # type: ignore[union-attr, method-assign]
        with pytest.raises(AssertionError, match=str(heard)):
            world.driver.feed("a", DiskFailed("EIO"))
    assert world.failures == [("a", "AssertionError: first")]


def test_others_that_are_to_be_stepped_have_their_turn() -> None:
    world = shell("a", "b")

    def feed_both() -> None:
        world.on_reply = None
        world.driver.feed("a", AssertionError("first"))
        world.driver.feed("b", [Reply("t", "behind it")])

    world.on_reply = feed_both
    with pytest.raises(AssertionError, match="first"):
        world.driver.feed("a", [Reply("t", "before it")])
    assert world.replies == ["before it", "behind it"]


def test_a_machine_tells_another_one_after_its_own_step() -> None:
    world = shell("a", "b")
    world.driver.feed("a", [Tell("b", [Reply("t", "by b")]), Reply("t", "by a")])
    assert world.replies == ["by a", "by b"]


def test_what_the_shell_makes_of_it_does_not_hide_it() -> None:
    world = shell("a")
    world.failed = lambda key, reason: 1 // 0  # type: ignore[method-assign, assignment]
    with pytest.raises(AssertionError, match="as we left it") as caught:
        world.driver.feed("a", AssertionError("as we left it"))
    assert "ZeroDivisionError" in caught.value.__notes__[0]
