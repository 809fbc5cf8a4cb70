"""`FaultInjector`: what a test says about faults, and the thread in which gates do it.

All gates of a cluster run in the event loop of one thread. What is said here is in force when the
method returns: it has been done in that thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from fencepost.testing.faults.gate import Gate
from fencepost.testing.faults.links import End, Pace
from fencepost.testing.faults.rules import (
    COUNT_MAX,
    DELAY_MAX_MS,
    NODE_ID_MAX,
    Fault,
    FaultError,
    Kind,
    Target,
    api_key_of,
    checked,
    error_of,
)
from fencepost.testing.faults.state import FaultState
from fencepost.wire.message import Message

T = TypeVar("T")
Api = str | int | type[Message] | None
"""An API: its name as in "Produce", its key, its request's class; None is any."""
BYTES_PER_S_MAX: Final = 1 << 40
REMEMBERED_MAX: Final = 1_000
CALL_TIMEOUT_S: Final = 60.0
TURNS_TO_CLOSE: Final = 5
"""In so many turns of its loop asyncio ends a connection, also one that it has just accepted."""


class FaultInjector:
    """Gates in front of nodes, and the faults that requests meet at them."""

    def __init__(self) -> None:
        self._state = FaultState()
        self._gates: list[Gate] = []
        self._faults: dict[int, Fault] = {}
        self._last_id = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    # -- life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread that gates run in."""
        if self._thread is not None:
            return
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="fencepost-faults", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Lift everything, end all connections, and end the thread."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            for gate in self._gates:
                gate.refuse()
            return
        self._call(self._close)
        self._await(_let_go)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        self._loop = self._thread = None

    def _close(self) -> None:
        for fault in list(self._faults.values()):
            self._lift(fault)
        for gate in self._gates:
            gate.close()

    def add_gate(self, node: int | None, target: tuple[str, int], port: int = 0) -> Gate:
        """A gate, closed, in front of a node that listens at `target`. OSError if `port` is taken.

        Without a port it gets a free one.
        """
        gate = Gate(self._state, node, target, port)
        self._gates.append(gate)
        return gate

    def open_gate(self, gate: Gate) -> None:
        """Have a gate accept connections. OSError if its port was taken meanwhile."""
        self._await(gate.open)

    def close_gate(self, gate: Gate) -> None:
        """Have a gate refuse connections; those that are open stay."""
        self._call(gate.refuse)

    # -- faults ----------------------------------------------------------------------------

    def fail_next(
        self,
        api: Api,
        error: str | int,
        count: int | None = 1,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        node: int | None = None,
        after: bool = False,
    ) -> Fault:
        """Answer the next `count` requests with `error`; None is all, until it is lifted.

        With `after` the broker carries them out, and only the answer says that they failed.
        FaultError for an API or error that does not exist.
        """
        return self.inject(
            "fail",
            api,
            count,
            error=error,
            client_id=client_id,
            topic=topic,
            node=node,
            after=after,
        )

    def disconnect_next(
        self,
        api: Api,
        count: int | None = 1,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        node: int | None = None,
        after: bool = False,
    ) -> Fault:
        """End the connections of the next `count` requests, in place of an answer.

        With `after` the broker carries them out first: their clients cannot know. FaultError.
        """
        return self.inject(
            "disconnect", api, count, client_id=client_id, topic=topic, node=node, after=after
        )

    def delay(
        self,
        api: Api,
        delay_ms: int,
        count: int | None = None,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        node: int | None = None,
        after: bool = False,
    ) -> Fault:
        """Have requests, or with `after` their answers, arrive so much later. FaultError."""
        return self.inject(
            "delay",
            api,
            count,
            delay_ms=delay_ms,
            client_id=client_id,
            topic=topic,
            node=node,
            after=after,
        )

    def hold(
        self,
        api: Api,
        count: int | None = None,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        node: int | None = None,
        after: bool = False,
    ) -> Fault:
        """Have requests, or with `after` their answers, wait until it is released. FaultError."""
        return self.inject(
            "hold", api, count, client_id=client_id, topic=topic, node=node, after=after
        )

    def inject(
        self,
        kind: Kind,
        api: Api,
        count: int | None,
        *,
        error: str | int | None = None,
        delay_ms: int = 0,
        client_id: str | None = None,
        topic: str | None = None,
        node: int | None = None,
        after: bool = False,
    ) -> Fault:
        """A fault of any kind; the methods above say which there are. FaultError."""
        if node is not None:
            checked("node", node, 0, NODE_ID_MAX)
        if count is not None:
            checked("count", count, 1, COUNT_MAX)
        if kind == "delay":
            checked("delay_ms", delay_ms, 1, DELAY_MAX_MS)
        if kind == "fail" and error is None:
            raise FaultError("error: which one is wanted")
        target = Target(api_key_of(api), client_id, topic, node)
        code = error_of(error) if kind == "fail" and error is not None else 0

        def add() -> Fault:
            fault = Fault(
                self._last_id + 1,
                kind,
                target,
                count,
                after=after,
                error=code,
                delay_ms=delay_ms,
                lift=lambda one: self._call(lambda: self._lift(one)),
            )
            self._state.rules.add(fault)
            self._last_id += 1
            self._faults[fault.id] = fault
            self._forget()
            return fault

        return self._call(add)

    def fault(self, id_: int) -> Fault | None:
        """The fault with this number, if it is not long ago."""
        return self._faults.get(id_)

    @property
    def faults(self) -> list[Fault]:
        """The faults that are in force or hold something, oldest first."""
        return [one for one in list(self._faults.values()) if not one.is_over]

    def clear(self) -> None:
        """Lift all faults and heal all links."""
        for fault in self.faults:
            fault.lift()
        self.heal()

    # -- links -----------------------------------------------------------------------------

    def cut(self, a: End, b: End = None, *, one_way: bool = False) -> None:
        """Cut the link between two ends: a node's id, or a client's id; None is anybody.

        `one_way`: what `a` sends does not reach `b`, but `a` hears `b`.
        """

        def change() -> None:
            self._state.links.cut(a, b)
            if not one_way:
                self._state.links.cut(b, a)
            self._links_changed()

        self._call(change)

    def slow(
        self,
        a: End,
        b: End = None,
        *,
        delay_ms: int = 0,
        bytes_per_s: int | None = None,
        one_way: bool = False,
    ) -> None:
        """Have the link between two ends (as of `cut`) take its time, until it is healed.

        A request or an answer arrives `delay_ms` later, and of each connection no more than
        `bytes_per_s` pass in a second. `one_way`: only what `a` sends to `b`. FaultError for
        numbers out of bounds, or if neither is said.
        """
        checked("delay_ms", delay_ms, 0, DELAY_MAX_MS)
        if bytes_per_s is not None:
            checked("bytes_per_s", bytes_per_s, 1, BYTES_PER_S_MAX)
        elif not delay_ms:
            raise FaultError("a slow link has delay_ms, bytes_per_s or both")
        pace = Pace(delay_ms, bytes_per_s)

        def change() -> None:
            self._state.links.slow(a, b, pace)
            if not one_way:
                self._state.links.slow(b, a, pace)
            self._links_changed()

        self._call(change)

    def heal(self, a: End = None, b: End = None) -> None:
        """Heal what is cut or slow between the two, both ways; without them, everything.

        What waited arrives.
        """

        def change() -> None:
            self._state.links.heal(a, b)
            self._links_changed()

        self._call(change)

    @property
    def cuts(self) -> list[tuple[End, End]]:
        """The cuts in force: what the first end sends does not reach the second."""
        return self._state.links.cuts

    @property
    def slow_links(self) -> dict[tuple[End, End], Pace]:
        """The slow links in force: what the first end sends the second takes so long."""
        return self._state.links.slow_links

    def _links_changed(self) -> None:
        for gate in self._gates:
            gate.links_changed()

    # -- inside ----------------------------------------------------------------------------

    @property
    def _is_injecting(self) -> bool:
        return self._loop is not None

    def _lift(self, fault: Fault) -> None:
        if not fault.is_lifted:
            fault.is_lifted = True
            self._state.rules.remove(fault)
            for gate in self._gates:
                gate.lifted(fault)

    def _forget(self) -> None:
        """Forget the oldest of those that are over."""
        over = [one.id for one in self._faults.values() if one.is_over]
        for id_ in over[: max(0, len(over) - REMEMBERED_MAX)]:
            self._faults.pop(id_).is_lifted = True

    def _call(self, function: Callable[[], T]) -> T:
        """Do something in the thread of the gates."""

        async def call() -> T:
            return function()

        return self._await(call)

    def _await(self, function: Callable[[], Awaitable[T]]) -> T:
        if self._loop is None:
            raise FaultError("no proxy runs that could inject faults: this has not been started")

        async def call() -> T:
            return await function()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(CALL_TIMEOUT_S)


async def _let_go() -> None:
    """Let connections that were accepted a moment ago be refused, and those that are closed end.

    A task of asyncio that would make a connection must not be cancelled: its socket would stay.
    """
    for _ in range(TURNS_TO_CLOSE):
        await asyncio.sleep(0)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for _ in range(TURNS_TO_CLOSE):
        await asyncio.sleep(0)
