"""The queue of one connection's answers: they leave in the order in which requests came.

Every request has a place here from its arrival on. An answer whose turn has come moves to the
`Output`, as long as that is below its high water; one that is known early stays in its place, which
is what keeps responses in order while a long poll is parked in front of them. An answer may be made
only when it is its turn, in pieces if that takes long; those behind it wait for it.

Places are taken by `PendingRequest`s, and by slots of takers (`run_taker`), many of whose answers
leave in one go. What has been throttled mutes its connection when its answer leaves (KIP-219).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, Protocol

from fencepost.broker.net.host import Host
from fencepost.broker.net.output import Output
from fencepost.broker.net.pending_request import Buffer, PendingRequest
from fencepost.broker.net.run_taker import RunSlot, SlotTaker
from fencepost.runtime.requests.context import Pieces

log = logging.getLogger(__name__)

OUTPUT_HIGH_WATER_BYTES: Final = 1024 * 1024


class Client(Protocol):
    """Whose answers they are."""

    closed: bool
    """Whether nothing can be sent any more."""
    is_broker: bool
    """Whether it is a broker, which need not wait for clients."""

    def close(self, reason: str) -> None:
        """Disconnect after what is on its way out already."""
        ...

    def flush(self) -> None:
        """Write what is in the output."""
        ...

    def mute(self, throttle_time_ms: int) -> None:
        """Take no further requests for so many milliseconds."""
        ...


class Answers:
    """See the module docstring."""

    __slots__ = (
        "_client",
        "_host",
        "_is_draining",
        "_is_making",
        "_output",
        "buffered_bytes",
        "frame_bytes",
        "is_held",
        "waiting",
    )

    def __init__(self, client: Client, host: Host, output: Output) -> None:
        self._client = client
        self._host = host
        self._output = output
        self._is_draining = False
        self._is_making = False
        self.is_held = False
        """No answer leaves now."""
        self.waiting: deque[Any] = deque()
        """Requests whose answers have not left, the first of them first."""
        self.frame_bytes = 0
        """Of their frames."""
        self.buffered_bytes = 0
        """What they take up besides, with answers that are known and wait behind others."""

    def add(self, context: PendingRequest) -> None:
        """A request has come."""
        self.waiting.append(context)
        self.frame_bytes += context.frame_size_bytes

    def take_back(self) -> None:
        """The request that came last is to be another."""
        self.frame_bytes -= self.waiting.pop().frame_size_bytes

    def replace_slot(
        self, slot: RunSlot, make: Callable[[], PendingRequest]
    ) -> PendingRequest | None:
        """An ordinary context in the place of a taker's slot; None if it has none any more."""
        if slot not in self.waiting:
            return None
        context = make()
        self.waiting[self.waiting.index(slot)] = context
        return context

    def abandon(self) -> None:
        """The client is gone, and with it the requests."""
        waiting, self.waiting = self.waiting, deque()
        self.drop_buffered()
        for one in waiting:
            one.abandoned()

    def add_buffered(self, size_bytes: int) -> None:
        """Requests that wait take so much more (or less) memory; may cost the connection."""
        self.buffered_bytes += size_bytes
        self._host.memory_budget.add_waiting(size_bytes)

    def drop_buffered(self) -> None:
        """They take nothing any more."""
        self._host.memory_budget.add_waiting(-self.buffered_bytes)
        self.buffered_bytes = 0

    @property
    def is_free(self) -> bool:
        """Whether an answer that is made now would leave now."""
        return not self.waiting and self._output.size_bytes <= OUTPUT_HIGH_WATER_BYTES

    def is_next(self, context: PendingRequest) -> bool:
        """Whether the answer would leave now."""
        return (
            not self._is_making
            and self.waiting[0] is context
            and self._output.size_bytes <= OUTPUT_HIGH_WATER_BYTES
        )

    def drain(self) -> None:
        """Move answers whose turn has come to the output, up to its high water."""
        if self._is_draining or self.is_held:
            return
        self._is_draining = True
        try:
            waiting, output = self.waiting, self._output
            while waiting and waiting[0].answered and not self._client.closed:
                if output.size_bytes > OUTPUT_HIGH_WATER_BYTES or self._is_making:
                    break
                if (taker := waiting[0].taker) is not None:
                    self._put_run(taker)
                    continue
                pieces = waiting[0].take_pieces()
                if pieces is not None and not self._make(waiting[0], pieces):
                    break
                context = waiting.popleft()
                self.frame_bytes -= context.frame_size_bytes
                context.release()
                self._put(context)
                if context.throttle_time_ms:
                    self._client.mute(context.throttle_time_ms)
        finally:
            self._is_draining = False

    def put_next(self, context: PendingRequest, parts: list[Buffer]) -> None:
        """The answer of a request that has come last and `is_next`, without errors: it leaves."""
        came_last = self.waiting.pop()
        assert came_last is context and not self.waiting, "it is the next"
        self.frame_bytes -= context.frame_size_bytes
        context.charge()
        if context.throttle_time_ms:
            parts = context.with_throttle_time(parts)
            self._client.mute(context.throttle_time_ms)
        context.leave(parts)
        context.release()
        self._output.put(parts)

    def put_run(self) -> None:
        """The answers of a taker's slots at the front that are known, if there are such."""
        if self.waiting and (taker := self.waiting[0].taker) is not None:
            self._put_run(taker)

    def _put_run(self, taker: SlotTaker) -> None:
        left_bytes = OUTPUT_HIGH_WATER_BYTES - self._output.size_bytes
        answers, frame_bytes, timed, throttle_time_ms = taker.take_answers(self.waiting, left_bytes)
        self.frame_bytes -= frame_bytes
        if timed:
            taker.sent(timed, perf_counter())
        if answers:
            self._output.put([answers])
        if throttle_time_ms:
            self._client.mute(throttle_time_ms)

    def _put(self, context: PendingRequest) -> None:
        try:
            parts = context.take_parts()
        except Exception:
            name = context.route.name
            log.exception("the answer to %s from %s failed", name, self._client)
            self._client.close(f"{name} could not be answered")
            return
        self._output.put(parts)

    def _make(self, context: PendingRequest, pieces: Pieces) -> bool:
        """Have an answer made in pieces; whether it is done."""
        self._is_making = not self.work_on(context, pieces, self._made)
        return not self._is_making

    def work_on(self, context: PendingRequest, pieces: Pieces, on_done: Callable[[], None]) -> bool:
        """Work on an answer, as long as the client is there; whether it is done already."""
        lane = self._host.broker_work if self._client.is_broker else self._host.work
        work = context.answering(pieces)
        if self._host.quotas.is_on:
            work = self._host.quotas.measured(context, work)
        return lane.begin(work, on_done, is_wanted=lambda: not context.disconnected)

    def _made(self) -> None:
        """The answer whose turn it is has been made."""
        self._is_making = False
        self.drain()
        self._client.flush()
