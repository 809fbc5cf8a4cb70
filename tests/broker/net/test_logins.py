"""Logins that take long to check: each address has its turn, and none keeps the others out."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from fencepost.broker.net.fair_queue import FairQueue
from fencepost.broker.net.logins import THREADS, WAITING_MAX, Check, Logins

from ...waiting import DEADLINE_S, eventually
from ..listener_fixtures import LoopThread


def test_owners_have_their_turns():
    queue: FairQueue[str] = FairQueue(10)
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        assert queue.add(item[0], item) is None
    assert [queue.pop() for _ in range(6)] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert len(queue) == 0
    with pytest.raises(IndexError):
        queue.pop()


def test_one_item_too_many_costs_the_owner_that_has_most():
    queue: FairQueue[str] = FairQueue(3)
    assert [queue.add("a", item) for item in ("a1", "a2", "a3", "a4")] == [None, None, None, "a4"]
    assert queue.add("b", "b1") == "a3"
    assert queue.add("c", "c1") == "a2"
    assert queue.add("d", "d1") == "d1", "all have one: who comes last has to come again"
    assert [queue.pop() for _ in range(3)] == ["a1", "b1", "c1"]


class Bench:
    """Logins whose checks wait until they are let go."""

    def __init__(self) -> None:
        self.thread = LoopThread()
        self.logins = self.thread.call(lambda: Logins(self.thread.loop))
        self.go = threading.Event()
        self.done: list[str] = []
        self.refused: list[str] = []
        self.gone: set[str] = set()

    def come(self, host: str, name: str) -> None:
        check = Check(
            lambda: self.go.wait(DEADLINE_S),
            lambda: name not in self.gone,
            lambda outcome: self.done.append(name),
            lambda: self.refused.append(name),
        )
        self.thread.call(self.logins.run, host, check)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    try:
        yield made
    finally:
        made.go.set()
        made.thread.call(made.logins.close)
        made.thread.close()


def test_a_flood_from_one_address_keeps_no_other_out(bench: Bench):
    for number in range(WAITING_MAX + THREADS + 40):
        bench.come("10.0.0.9", f"flood-{number}")
    assert len(bench.refused) == 40
    bench.come("10.0.0.1", "ada")
    assert len(bench.refused) == 41
    assert "ada" not in bench.refused
    bench.go.set()
    eventually(lambda: len(bench.done) == WAITING_MAX + THREADS, "all are checked")
    assert bench.done.index("ada") <= 2 * THREADS


def test_a_client_that_has_left_is_not_checked_and_hears_of_nothing(bench: Bench):
    for name in ("one", "two", "left", "four"):
        bench.come("10.0.0.9", name)
    bench.gone.add("left")
    bench.go.set()
    eventually(lambda: len(bench.done) == 3)
    assert sorted(bench.done) == ["four", "one", "two"]
    assert bench.refused == []


def test_none_is_checked_once_the_node_stops(bench: Bench):
    bench.thread.call(bench.logins.close)
    bench.come("10.0.0.9", "late")
    assert bench.refused == ["late"]
