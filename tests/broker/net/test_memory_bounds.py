"""Who is disconnected when the connections buffer too much together, and what answers may take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from fencepost.broker.net.memory_budget import (
    AVAILABLE_BYTES_MIN,
    EVICT_EVERY_S,
    INCOMING_FRAMES,
    OUTGOING_BYTES_MAX,
    SHARE,
    STALLED_S,
    WAITING_BYTES_MAX,
    MemoryBudget,
)

FRAME_BYTES = 1000
INCOMING_BYTES_MAX = INCOMING_FRAMES * FRAME_BYTES
LONG_STALLED_S = -100.0


class SteppedLoop:
    """An event loop's clock and timers, moved by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Any:
        entry = (self.now_s + delay_s, callback)
        self.timers.append(entry)
        return Timer(self, entry)

    def advance(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while due := [entry for entry in self.timers if entry[0] <= until_s]:
            first = min(due, key=lambda entry: entry[0])
            self.timers.remove(first)
            self.now_s = max(self.now_s, first[0])
            first[1]()
        self.now_s = until_s


@dataclass
class Timer:
    loop: SteppedLoop
    entry: tuple[float, Callable[[], None]]

    def cancel(self) -> None:
        if self.entry in self.loop.timers:
            self.loop.timers.remove(self.entry)


@dataclass
class Client:
    """A connection that buffers something, and drops it when it is evicted."""

    budget: MemoryBudget
    name: str
    incoming_rate: float | None = None
    output_stalled_since: float | None = None
    incoming_bytes: int = 0
    outgoing_bytes: int = 0
    buffered_bytes: int = 0
    reasons: list[str] = field(default_factory=list)

    def evict(self, reason: str) -> None:
        self.reasons.append(reason)
        self.incoming_rate = self.output_stalled_since = None
        self.budget.add_incoming(-self.incoming_bytes)
        self.budget.add_outgoing(-self.outgoing_bytes)
        self.budget.add_waiting(-self.buffered_bytes)
        self.incoming_bytes = self.outgoing_bytes = self.buffered_bytes = 0


class Bench:
    """The sums of one node and its clients."""

    def __init__(self) -> None:
        self.loop = SteppedLoop()
        self.clients: list[Client] = []
        loop = cast(asyncio.AbstractEventLoop, self.loop)
        self.budget = MemoryBudget(loop, lambda: self.clients, FRAME_BYTES)

    def sender(self, name: str, rate: float | None, size_bytes: int) -> Client:
        client = Client(self.budget, name, incoming_rate=rate, incoming_bytes=size_bytes)
        self.clients.append(client)
        self.budget.add_incoming(size_bytes)
        return client

    def reader(self, name: str, stalled_since_s: float | None, size_bytes: int) -> Client:
        client = Client(
            self.budget, name, output_stalled_since=stalled_since_s, outgoing_bytes=size_bytes
        )
        self.clients.append(client)
        self.budget.add_outgoing(size_bytes)
        return client

    def waiter(self, name: str, size_bytes: int) -> Client:
        client = Client(self.budget, name, buffered_bytes=size_bytes)
        self.clients.append(client)
        self.budget.add_waiting(size_bytes)
        return client

    @property
    def disconnected(self) -> list[str]:
        return [client.name for client in self.clients if client.reasons]


@pytest.fixture
def bench() -> Bench:
    return Bench()


# -- incoming --------------------------------------------------------------------------------------


def test_the_slowest_sender_of_a_long_frame_is_disconnected(bench: Bench) -> None:
    bench.sender("fast", 1000.0, 1000)
    bench.sender("slow", 1.0, 1000)
    bench.sender("middling", 10.0, 1000)
    bench.sender("small frames only", None, 0)
    bench.sender("fastest", 10_000.0, 1001)
    assert bench.disconnected == ["slow"]
    (reason,) = bench.clients[1].reasons
    assert "socket.request.max.bytes" in reason
    assert str(INCOMING_BYTES_MAX + 1) in reason
    assert bench.budget.incoming_bytes == INCOMING_BYTES_MAX + 1 - 1000


def test_nobody_is_disconnected_at_the_bound_itself(bench: Bench) -> None:
    bench.sender("all of it", 1.0, INCOMING_BYTES_MAX)
    assert bench.disconnected == []
    bench.sender("a byte more", 2.0, 1)
    assert bench.disconnected == ["all of it"]


def test_who_gives_bytes_back_makes_nobody_disconnect(bench: Bench) -> None:
    """Not even while the sum is still over the bound: it is on its way down."""
    bench.sender("stays", None, INCOMING_BYTES_MAX + 10)
    bench.sender("quick", 5.0, 0)
    bench.budget.add_incoming(-1)
    assert bench.disconnected == []


# -- outgoing --------------------------------------------------------------------------------------


def test_readers_that_take_nothing_are_disconnected_longest_stalled_first(bench: Bench) -> None:
    third = OUTGOING_BYTES_MAX // 3 + 1
    bench.reader("stalled lately", LONG_STALLED_S + 50, third)
    bench.reader("stalled longest", LONG_STALLED_S, third)
    bench.reader("reads", 0.0, third)
    bench.loop.advance(EVICT_EVERY_S)
    assert bench.disconnected == ["stalled longest"], "one was enough"
    assert f"nothing for {EVICT_EVERY_S - LONG_STALLED_S:.1f} s" in bench.clients[1].reasons[0]
    assert bench.loop.timers == [], "nothing more to do"


def test_as_many_are_disconnected_as_it_takes(bench: Bench) -> None:
    for number in range(5):
        bench.reader(f"{number}", LONG_STALLED_S + number, OUTGOING_BYTES_MAX // 3 + 1)
    bench.loop.advance(EVICT_EVERY_S)
    assert bench.disconnected == ["0", "1", "2"]
    assert bench.budget.outgoing_bytes <= OUTGOING_BYTES_MAX


def test_a_second_time_of_too_much_output_is_handled_like_the_first(bench: Bench) -> None:
    for name in ("first", "second"):
        bench.reader(name, LONG_STALLED_S, OUTGOING_BYTES_MAX + 1)
        bench.loop.advance(EVICT_EVERY_S)
        assert bench.disconnected[-1] == name


def test_a_client_that_has_taken_something_lately_is_not_stalled(bench: Bench) -> None:
    reader = bench.reader("reads", None, OUTGOING_BYTES_MAX + 1)
    reader.output_stalled_since = 0.0
    bench.loop.advance(STALLED_S - EVICT_EVERY_S)
    assert bench.disconnected == []
    assert len(bench.loop.timers) == 1, "it is looked at again"
    bench.loop.advance(EVICT_EVERY_S)
    assert bench.disconnected == ["reads"], f"it took nothing for {STALLED_S} s"


def test_nobody_is_disconnected_while_output_is_within_its_bound(bench: Bench) -> None:
    bench.reader("stalled", LONG_STALLED_S, OUTGOING_BYTES_MAX)
    assert bench.loop.timers == []
    other = bench.reader("a byte more", None, 1)
    assert len(bench.loop.timers) == 1
    bench.budget.add_outgoing(1)
    assert len(bench.loop.timers) == 1, "one look at a time"
    bench.budget.add_outgoing(-1)
    other.evict("it is gone")
    other.reasons.clear()
    bench.loop.advance(EVICT_EVERY_S)
    assert bench.disconnected == [], "the bound was kept again before anybody looked"


def test_nothing_is_looked_at_after_the_close(bench: Bench) -> None:
    bench.reader("stalled", LONG_STALLED_S, OUTGOING_BYTES_MAX + 1)
    bench.budget.close()
    bench.loop.advance(10 * EVICT_EVERY_S)
    assert bench.disconnected == []


# -- what an answer is offered ---------------------------------------------------------------------


def test_an_answer_is_offered_a_share_of_what_is_left(bench: Bench) -> None:
    assert bench.budget.available_bytes == OUTGOING_BYTES_MAX // SHARE
    bench.budget.add_outgoing(OUTGOING_BYTES_MAX // 2)
    assert bench.budget.available_bytes == OUTGOING_BYTES_MAX // 2 // SHARE
    bench.budget.add_outgoing(-OUTGOING_BYTES_MAX // 4)
    assert bench.budget.available_bytes == OUTGOING_BYTES_MAX * 3 // 4 // SHARE


@pytest.mark.parametrize("over_bytes", [-SHARE * AVAILABLE_BYTES_MIN + SHARE, 0, 1 << 30])
def test_an_answer_is_always_offered_the_least(bench: Bench, over_bytes: int) -> None:
    """However much is buffered: a client that reads must come on."""
    bench.budget.add_outgoing(OUTGOING_BYTES_MAX + over_bytes)
    assert bench.budget.available_bytes == AVAILABLE_BYTES_MIN


# -- waiting ---------------------------------------------------------------------------------------


def test_the_client_whose_waiting_requests_take_the_most_is_disconnected(bench: Bench) -> None:
    half = WAITING_BYTES_MAX // 2
    bench.waiter("little", 1000)
    bench.waiter("most", half)
    bench.waiter("less", half - 1000)
    assert bench.disconnected == [], "at the bound itself"
    bench.waiter("last", 1)
    assert bench.disconnected == ["most"]
    (reason,) = bench.clients[1].reasons
    assert str(WAITING_BYTES_MAX + 1) in reason and str(half) in reason
    assert bench.budget.waiting_bytes == half + 1


def test_who_asks_for_too_much_alone_is_disconnected_itself(bench: Bench) -> None:
    bench.waiter("little", 1000)
    bench.waiter("much", WAITING_BYTES_MAX)
    assert bench.disconnected == ["much"]
    assert bench.budget.waiting_bytes == 1000


def test_an_answer_that_leaves_makes_nobody_disconnect(bench: Bench) -> None:
    much = bench.waiter("much", 0)
    much.buffered_bytes = WAITING_BYTES_MAX + 10
    bench.budget.waiting_bytes = much.buffered_bytes
    bench.budget.add_waiting(-1)
    assert bench.disconnected == []
