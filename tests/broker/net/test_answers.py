"""Answers leave in the order of requests, within bounds, and what they take is counted."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.broker.net.answers import OUTPUT_HIGH_WATER_BYTES, Answers
from fencepost.broker.net.client_quotas import NO_QUOTAS
from fencepost.broker.net.memory_budget import MemoryBudget
from fencepost.broker.net.output import SMALL_OUTPUT_BYTES, Output
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.turn import QUANTUM_BYTES, Turn


class Socket:
    """A transport and the writer over it; it takes `room` bytes of what is large at a time."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.room = room
        self.taken: list[bytes] = []
        self.is_broken = self.closing = self.aborted = False

    def write(self, data: Any) -> None:
        self.taken.append(bytes(data))

    def write_some(self, parts: deque[Any], most_bytes: int) -> int:
        if self.is_broken:
            raise OSError("nobody is there")
        data = b"".join(bytes(part) for part in parts)[: min(self.room, most_bytes)]
        self.taken.append(data)
        return len(data)

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.aborted = True


class Client:
    """A connection with nothing but answers, and the host it shares with nobody."""

    listener_name, client_host, routes, available_bytes = "PLAINTEXT", "?", {}, 0
    is_broker = False
    quotas = NO_QUOTAS

    def __init__(self) -> None:
        self.socket = Socket()
        self.now = 5.0
        loop: Any = SimpleNamespace(time=lambda: self.now)
        self.budget = MemoryBudget(loop, list, 1000)
        self.turn = Turn(lambda callback: None)
        self.output = Output(self.socket, self.socket, self.budget, self.turn, lambda: self.now)
        self.work: list[Any] = []
        self.taker = Taker()
        self.muted_ms: list[int] = []
        host: Any = SimpleNamespace(
            memory_budget=self.budget, work=self, loop=loop, quotas=NO_QUOTAS
        )
        self.answers = Answers(self, host, self.output)
        self.closed = False
        self.flushed = 0

    def begin(self, pieces: Any, on_done: Any, is_wanted: Any) -> bool:
        self.work.append((pieces, on_done))
        return False

    def do_work(self) -> None:
        pieces, on_done = self.work.pop()
        for _ in pieces:
            """As far as it goes."""
        on_done()

    def close(self, reason: str) -> None:
        self.closed = True

    def flush(self) -> None:
        self.flushed += 1

    def mute(self, throttle_time_ms: int) -> None:
        self.muted_ms.append(throttle_time_ms)

    def settled(self, context: PendingRequest) -> None:
        self.answers.drain()

    def is_next(self, context: PendingRequest) -> bool:
        return self.answers.is_next(context)

    def add_buffered(self, size_bytes: int) -> None:
        self.answers.add_buffered(size_bytes)

    def ask(self, frame_bytes: int = 10) -> PendingRequest:
        route: Any = SimpleNamespace(name="Test", api_key=1)
        client: Any = self
        context = PendingRequest(client, route, 0, 1, None, frame_bytes)
        self.answers.add(context)
        return context

    def out(self) -> bytes:
        before = len(self.socket.taken)
        while self.output.write(QUANTUM_BYTES):
            """All of it."""
        return b"".join(self.socket.taken[before:])


class Taker:
    """Takes the answers of its slots, as `apis.produce_in_blocks` does."""

    def __init__(self) -> None:
        self.times: list[Any] = []

    def take_answers(
        self, waiting: deque[Any], bytes_max: int
    ) -> tuple[bytes, int, list[Any], int]:
        taken = []
        while waiting and waiting[0].taker is self and waiting[0].answered:
            taken.append(waiting.popleft())
        throttle_time_ms = max(one.throttle_time_ms for one in taken)
        return b"".join(one.answer for one in taken), 10 * len(taken), taken, throttle_time_ms

    def sent(self, requests: list[Any], now_s: float) -> None:
        self.times += requests


@pytest.fixture
def client() -> Client:
    return Client()


def slot(client: Client, answer: bytes, answered: bool = True, throttle_time_ms: int = 0) -> Any:
    return SimpleNamespace(
        taker=client.taker,
        answered=answered,
        answer=answer,
        frame_size_bytes=10,
        throttle_time_ms=throttle_time_ms,
    )


def test_answers_leave_in_the_order_of_requests(client) -> None:
    first, second, third = (client.ask() for _ in range(3))
    third.reply_without_errors(b"3")
    second.reply_without_errors(b"2")
    assert client.out() == b""
    assert client.answers.frame_bytes == 30
    first.reply_without_errors(b"1")
    assert client.out() == b"123" and client.answers.frame_bytes == 0


def test_usual_requests_leave_among_the_others(client) -> None:
    first = client.ask()
    client.answers.waiting += [slot(client, b"u"), slot(client, b"v")]
    last = client.ask()
    client.answers.waiting.append(slot(client, b"w", answered=False))
    client.answers.frame_bytes += 30
    last.reply_without_errors(b"z")
    client.answers.put_run()
    assert client.out() == b"", "the first is no slot of a taker"
    first.reply_without_errors(b"a")
    assert client.out() == b"auvz"
    assert client.answers.frame_bytes == 10 and len(client.taker.times) == 2


def test_an_answer_that_is_there_at_once_has_no_place(client) -> None:
    context = client.ask(7)
    context.add_buffered(5)
    client.answers.put_next(context, [b"a", b"b"])
    assert context.answered and not client.answers.waiting
    assert client.answers.frame_bytes == client.budget.waiting_bytes == 0
    assert client.budget.outgoing_bytes == 2 and client.out() == b"ab"


def test_nobody_may_be_in_front_of_an_answer_that_leaves_at_once(client) -> None:
    client.ask()
    with pytest.raises(AssertionError, match="the next"):
        client.answers.put_next(client.ask(), [b"a"])
    assert client.out() == b""


def test_a_context_takes_the_place_of_a_usual_request(client) -> None:
    gone, request = slot(client, b"u"), slot(client, b"u", answered=False)
    client.answers.waiting += [request, slot(client, b"v")]
    other = client.ask()
    client.answers.take_back()
    client.answers.frame_bytes = 20
    assert client.answers.replace_slot(gone, lambda: 1 / 0) is None
    assert client.answers.replace_slot(request, lambda: other) is other
    other.reply_without_errors(b"o")
    assert client.out() == b"ov" and client.answers.frame_bytes == 0


def test_a_request_that_is_taken_back_has_no_place(client) -> None:
    client.ask(7).reply_without_errors(b"1")
    waits = client.ask(7)
    client.ask(9)
    client.answers.take_back()
    assert list(client.answers.waiting) == [waits] and client.answers.frame_bytes == 7


def test_answers_wait_while_the_output_is_at_its_high_water(client) -> None:
    large, second, third = (client.ask() for _ in range(3))
    second.reply_lazily(lambda: 1 / 0)
    assert client.answers.is_next(large) and not client.answers.is_next(second)
    large.reply_without_errors(bytes(OUTPUT_HIGH_WATER_BYTES), b"x")
    assert client.output.size_bytes == OUTPUT_HIGH_WATER_BYTES + 1
    assert not client.answers.is_next(second) and not client.closed, "it is not made yet"
    client.output.drop()
    client.answers.drain()
    assert client.closed, "it could not be made"
    third.reply_without_errors(b"3")
    assert client.out() == b""


class InPieces:
    """A request whose answer is made when it is its turn."""

    taker, answered, disconnected, frame_size_bytes = None, True, False, 10
    throttle_time_ms = 0

    def __init__(self) -> None:
        self.is_made = False

    def _pieces(self) -> Any:
        yield None
        self.is_made = True

    def take_pieces(self) -> Any:
        return None if self.is_made else self._pieces()

    def answering(self, pieces: Any) -> Any:
        return pieces

    def release(self) -> None:
        """It takes nothing."""

    def take_parts(self) -> list[bytes]:
        return [b"made"]


def test_those_behind_wait_for_an_answer_that_is_made_in_pieces(client) -> None:
    first: Any = InPieces()
    client.answers.add(first)
    client.ask().reply_without_errors(b"2")
    assert not client.answers.is_next(first) and client.out() == b"" and client.flushed == 0
    client.do_work()
    assert client.flushed == 1 and client.out() == b"made2"


def test_what_waits_is_counted_until_nobody_does(client) -> None:
    first, second = client.ask(), client.ask()
    gone = []
    first.on_disconnect(lambda: gone.append(1))
    first.add_buffered(100)
    second.add_buffered(20)
    assert client.answers.buffered_bytes == client.budget.waiting_bytes == 120
    first.reply_without_errors(b"1")
    assert client.answers.buffered_bytes == client.budget.waiting_bytes == 20
    second.on_disconnect(lambda: gone.append(2))
    client.answers.abandon()
    assert client.answers.buffered_bytes == client.budget.waiting_bytes == 0
    assert gone == [2] and second.answered and not client.answers.waiting


def test_small_output_leaves_as_one_write(client) -> None:
    for data in (b"a", b"b"):
        client.output.put([data, data])
    assert client.budget.outgoing_bytes == client.output.size_bytes == 4
    assert client.output.write(QUANTUM_BYTES) and client.socket.taken == [b"aabb"]
    assert not client.output.write(QUANTUM_BYTES) and client.budget.outgoing_bytes == 0


def test_large_output_leaves_as_it_is_taken(client) -> None:
    parts = [b"a" * 30_000, b"b" * 9_000, b"c" * 1_000]
    client.socket.room = 34_000
    assert client.output.stalled_since is None
    client.output.put(parts)
    client.now = 6.0
    client.output.put([b"d"])
    assert client.output.stalled_since == 5.0
    client.now = 7.0
    assert client.output.write(QUANTUM_BYTES) and client.output.stalled_since == 7.0
    assert client.output.size_bytes == client.budget.outgoing_bytes == 6_001 < SMALL_OUTPUT_BYTES
    assert client.output.write(QUANTUM_BYTES) and not client.output
    assert b"".join(client.socket.taken) == b"".join(parts) + b"d"
    assert client.output.stalled_since is None
    client.output.is_paused = True  # the transport has all of it, and the client has not
    assert client.output.stalled_since == 7.0


@pytest.mark.parametrize("why", ["paused", "closing"])
def test_nothing_is_written_to_who_does_not_take_it(client, why) -> None:
    client.output.put([b"a"])
    client.output.is_paused, client.socket.closing = why == "paused", why == "closing"
    assert not client.output.write(QUANTUM_BYTES) and client.output.size_bytes == 1


def test_output_to_a_broken_socket_is_dropped(client) -> None:
    client.socket.is_broken = True
    client.output.put([bytes(SMALL_OUTPUT_BYTES + 1)])
    assert client.output.write(QUANTUM_BYTES) and client.socket.aborted
    assert not client.output and client.budget.outgoing_bytes == client.output.size_bytes == 0
