"""Long requests share the event loop: among each other, and with everybody else."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from fencepost.broker.net import piecework
from fencepost.broker.net.piecework import Piecework
from fencepost.broker.net.registry import ROUTES
from fencepost.broker.net.request_context import RequestContext
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.api import (
    ApiVersionsRequest,
    DescribeGroupsRequest,
    FetchRequest,
)
from fencepost.wire.api.describe_groups import DescribeGroupsResponse

from ..waiting import eventually
from .apis.harness import Caller, register
from .door import open_door, route
from .topic_requests import FOR_DAYS_MS, batch, fetch_request, make_topic, produce

register("api_versions", "fetch")

PIECE_S = 0.003


class Loop:
    """An event loop whose turns the test takes, and the clock that pieces take time of."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        self._due.append(lambda: callback(*arguments))

    call_soon_threadsafe = call_soon

    def turn(self) -> None:
        """Whatever is due now, not what comes to be due by that."""
        due, self._due = self._due, deque()
        for callback in due:
            callback()


class Bench:
    """Handlers of many clients, whose pieces take `PIECE_S` each."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.work = Piecework(loop)  # type: ignore[arg-type]
        self.done: list[str] = []
        self.pieces: list[str] = []
        self.callers: dict[str, Caller] = {}

    def begin(self, name: str, count: int, future: Future[None] | None = None) -> bool:
        """Begin a handler of so many pieces, the first of which waits for `future`."""

        def handler() -> Any:
            for _ in range(count):
                self.loop.now_s += PIECE_S
                self.pieces.append(name)
                yield future

        caller = self.callers[name] = Caller()
        context = RequestContext(caller, ROUTES[FetchRequest.api_key], 12, 1)  # type: ignore
        return self.work.begin(context, handler(), lambda: self.done.append(name))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    loop = Loop()
    monkeypatch.setattr(piecework, "perf_counter", lambda: loop.now_s)
    return Bench(loop)


def test_a_turn_is_as_long_with_a_hundred_clients_as_with_one(bench: Bench) -> None:
    for number in range(100):
        assert not bench.begin(f"long-{number}", 50)
    while len(bench.done) < 100:
        before_s = bench.loop.now_s
        bench.loop.turn()
        assert bench.loop.now_s - before_s <= piecework.TURN_S + PIECE_S


def test_clients_take_turns(bench: Bench) -> None:
    names = ["a", "b", "c"]
    for name in names:
        bench.begin(name, 12)
    while not bench.done:
        bench.loop.turn()
    counts = [bench.pieces.count(name) for name in names]
    assert max(counts) - min(counts) <= 2


def test_a_small_request_does_not_wait_for_long_ones(bench: Bench) -> None:
    for number in range(100):
        bench.begin(f"long-{number}", 50)
    assert bench.begin("small", 0), "it is done when it has begun"


def test_who_waits_for_a_thread_lets_others_work(bench: Bench) -> None:
    future: Future[None] = Future()
    bench.begin("waits", 1, future)
    bench.begin("works", 3)
    while not bench.done:
        bench.loop.turn()
    assert bench.done == ["works"]
    future.set_result(None)
    bench.loop.turn()
    bench.loop.turn()
    assert bench.done == ["works", "waits"]


def test_what_a_thread_has_done_already_is_not_waited_for(bench: Bench) -> None:
    future: Future[None] = Future()
    future.set_result(None)

    def handler() -> Any:
        yield future

    context = RequestContext(Caller(), ROUTES[FetchRequest.api_key], 12, 1)  # type: ignore
    assert bench.work.begin(context, handler(), pytest.fail), "it is done when it has begun"


def test_a_handler_that_fails_in_a_later_piece_is_an_error_in_the_answer(bench: Bench) -> None:
    def handler() -> Any:
        bench.loop.now_s += PIECE_S
        yield None
        raise ValueError("unforeseen")

    context = RequestContext(Caller(), ROUTES[FetchRequest.api_key], 12, 1)  # type: ignore
    assert not bench.work.begin(context, handler(), lambda: bench.done.append("failed"))
    bench.loop.turn()
    assert bench.done == ["failed"]
    assert context.answered


def test_the_work_of_a_client_that_has_left_is_dropped(bench: Bench) -> None:
    bench.begin("leaver", 50)
    bench.callers["leaver"].closed = True
    for _ in range(5):
        bench.loop.turn()
    assert len(bench.pieces) == 1
    assert bench.done == []


def test_one_that_fails_does_not_stop_those_behind_it(bench: Bench) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    bench.work.later(fail)
    bench.begin("works", 3)
    with pytest.raises(ZeroDivisionError):
        bench.loop.turn()
    while not bench.done:
        bench.loop.turn()


LONG = DescribeGroupsRequest(groups=["g" * 1000] * 100)


@contextlib.contextmanager
def at_work() -> Iterator[list[int]]:
    """A handler of DescribeGroups that works until the list has an entry."""
    finished: list[int] = []

    def handler(context: Any, request: Any) -> Any:
        while not finished:
            yield None
        return DescribeGroupsResponse()

    with route(DescribeGroupsRequest, (5, 5), handler):
        yield finished


def test_long_frames_of_several_clients_are_decoded_one_per_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(piecework, "TURN_S", 0.0)
    turns = [0]
    decoded_in: list[int] = []
    read = DescribeGroupsRequest.read

    def noted(*arguments: Any, **keywords: Any) -> Any:
        decoded_in.append(turns[0])
        return read(*arguments, **keywords)

    with contextlib.ExitStack() as stack:
        finished = stack.enter_context(at_work())
        door = stack.enter_context(open_door())
        first = stack.enter_context(door.connect())
        first.send(LONG, 5)
        eventually(lambda: door.thread.call(lambda: door.listener.work.is_busy), "the first")
        monkeypatch.setattr(DescribeGroupsRequest, "read", noted)

        def tick() -> None:
            turns[0] += 1
            if not finished:
                door.thread.loop.call_soon(tick)

        door.thread.call(tick)
        others = [stack.enter_context(door.connect()) for _ in range(10)]
        for client in others:
            client.send(LONG, 5)
        eventually(lambda: len(decoded_in) == 10, "the others")
        assert len(set(decoded_in)) == 10
        with door.connect() as small:
            assert small.ask(ApiVersionsRequest(), 0).error_code == 0
        finished.append(1)
        for client in (first, *others):
            client.receive(DescribeGroupsRequest.api_key, 5)


def test_data_that_arrives_while_a_long_fetch_is_begun_answers_it(node: Any, client: Any) -> None:
    """Between two pieces a partition moves that was looked at, and nobody will say so again."""
    count = 120
    topic = make_topic(client, partitions=count)
    get = node.node.replicas.get
    eventually(
        lambda: all(isinstance(get(topic.name, i), HostedPartition) for i in range(count)), "all"
    )
    request = fetch_request(topic, *[0] * count, max_wait_ms=FOR_DAYS_MS)
    served = node.node.listener.routes[FetchRequest.api_key]
    context = RequestContext(Caller(), served, 12, 7)
    pieces = served.handler(context, request)

    def step(times: int) -> None:
        for _ in range(times):
            next(pieces, None)

    node.call(step, 4)
    assert not context.answered
    assert produce(client, topic, batch(b"a"), index=0).error_code == 0
    node.call(step, 50)
    assert context.answered, "nobody waits for what is there"
