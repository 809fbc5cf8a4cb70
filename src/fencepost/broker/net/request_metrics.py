"""What is counted of requests, by API: how many, how long, how large, and with which errors.

Theory of operation
-------------------
A listener that is watched has a `RequestMetrics`, whose contexts take the place of plain ones.
An unwatched listener measures nothing. Every request is counted; times are taken of each as long
as there are few, and of one in `TIMED_ONE_IN` of an API that is asked often, which counts as many.

The time of a request has four parts, which add up to its total; they have the names of Kafka's
beans:

* queue: the frame was here, and waited behind others of its connection, or for a bound to clear;
* local: its handler worked, or made the answer when that was the next to be sent (a Fetch reads
  then);
* remote: it waited for the disk, for data or for other nodes;
* response queue: its answer was known, and waited behind the answer to an earlier request.

How long a socket takes an answer is not known: answers leave together.

Errors are those in the answer, as in Kafka: of each partition, topic or group in it, and its own.
An answer without any counts once, as NONE. A request that is answered by disconnecting counts as a
request, and has no time and no error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final, Protocol

from msgspec.structs import replace

from fencepost.broker.loop.distribution import FRESH_MAX, Distribution
from fencepost.broker.net.pending_request import Buffer, PendingRequest, Replier
from fencepost.broker.net.registry import BytesHandler, Handler, Route
from fencepost.runtime.requests.context import Pieces
from fencepost.wire.message import Message, Struct

ALL_TIMED_UP_TO: Final = 100
"""Requests of an API in a second whose time is taken, each."""
TIMED_ONE_IN: Final = 7
"""Of more in a second, one in so many is timed and stands for all of them."""
ERROR_FIELD: Final = "error_code"
NONE: Final = 0


def timed_weight(number: int) -> int:
    """How many requests the time of the one with this number in its second stands for; 0: its time
    is not taken."""
    if number <= ALL_TIMED_UP_TO:
        return 1
    return 0 if number % TIMED_ONE_IN else TIMED_ONE_IN


CountErrors = Callable[[Any, "Counter[int]"], int]
"""Counts the errors in a struct, and says how many there are."""


class ApiMetrics:
    """What is counted of one API on one listener. Times are in milliseconds, sizes in bytes."""

    __slots__ = (
        "_count_errors",
        "_fresh",
        "_local_ms",
        "_queue_ms",
        "_remote_ms",
        "_response_queue_ms",
        "_total_ms",
        "errors",
        "in_second",
        "name",
        "request_bytes",
        "response_bytes",
        "second_s",
        "versions",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        """Kafka's name of the API, such as `Produce`."""
        self.versions: Counter[int] = Counter()
        """Requests by their version."""
        self.errors: Counter[int] = Counter()
        """Errors in answers by their code."""
        self.request_bytes = 0
        self.response_bytes = 0
        self.second_s = 0.0
        self.in_second = 0
        """How many requests there were since `second_s`, which is less than a second ago."""
        self._fresh: list[tuple[float, float, float, float]] = []
        self._queue_ms = Distribution()
        self._local_ms = Distribution()
        self._remote_ms = Distribution()
        self._response_queue_ms = Distribution()
        self._total_ms = Distribution()
        self._count_errors: dict[type[Struct], CountErrors | None] = {}

    def number_before(self, arrived_s: float) -> int:
        """How many requests there were in this second, before those that arrive now."""
        if arrived_s - self.second_s >= 1.0:
            self.second_s, self.in_second = arrived_s, 0
        return self.in_second

    def asked(self, requests: int, version: int, size_bytes: int) -> None:
        """So many requests of a version have come, with frames of so many bytes together."""
        self.versions[version] += requests
        self.request_bytes += size_bytes
        self.in_second += requests

    def answered_without_errors(self, answers: int, size_bytes: int) -> None:
        """These are the answers to so many requests."""
        self.errors[NONE] += answers
        self.response_bytes += size_bytes

    def answering(self, response: Message) -> None:
        """This is the answer to a request."""
        kind = type(response)
        try:
            count = self._count_errors[kind]
        except KeyError:
            count = self._count_errors[kind] = count_errors_in(kind)
        if count is None or not count(response, self.errors):
            self.errors[NONE] += 1

    def done(self, times_s: tuple[float, float, float, float], weight: int) -> None:
        """An answer goes to the output, after so much time in each part: queue, local, remote and
        response queue. It stands for `weight` requests."""
        fresh = self._fresh
        if weight == 1:
            fresh.append(times_s)
        else:
            fresh += (times_s,) * weight
        if len(fresh) >= FRESH_MAX:
            self._settle()

    def times(self) -> dict[str, Distribution]:
        """How long requests took, in milliseconds, by what Kafka calls the part of the time."""
        self._settle()
        return {
            "requestqueuetimems": self._queue_ms,
            "localtimems": self._local_ms,
            "remotetimems": self._remote_ms,
            "responsequeuetimems": self._response_queue_ms,
            "totaltimems": self._total_ms,
        }

    def _settle(self) -> None:
        if not self._fresh:
            return
        parts = (self._queue_ms, self._local_ms, self._remote_ms, self._response_queue_ms)
        for part, values_s in zip(parts, zip(*self._fresh, strict=True), strict=True):
            part.add_all(value_s * 1e3 for value_s in values_s)
        self._total_ms.add_all(sum(times_s) * 1e3 for times_s in self._fresh)
        self._fresh.clear()


class RequestMetrics:
    """What is counted of the requests of one listener."""

    def __init__(self) -> None:
        self.apis: dict[int, ApiMetrics] = {}
        """By API key: those that were asked for."""

    def watch(self, route: Route) -> Route:
        """The route, with handlers that say when they begin and return."""
        take_bytes, run_taker = route.take_bytes, route.run_taker
        return replace(
            route,
            handler=_timed(route.handler),
            take_bytes=None if take_bytes is None else _timed_bytes(take_bytes),
            run_taker=None if run_taker is None else run_taker.counted_by(self.of(route)),
        )

    def new_context(
        self,
        connection: WatchedConnection,
        route: Route,
        api_version: int,
        correlation_id: int,
        client_id: str | None = None,
        frame_size_bytes: int = 0,
    ) -> PendingRequest:
        """The context of a request, which is counted here."""
        api, arrived_s = self.of(route), connection.arrived_s
        number = api.number_before(arrived_s) + 1
        api.asked(1, api_version, frame_size_bytes)
        weight = timed_weight(number)
        if not weight:
            counted = _Counted(
                connection, route, api_version, correlation_id, client_id, frame_size_bytes
            )
            counted.api = api
            return counted
        timed = _Timed(connection, route, api_version, correlation_id, client_id, frame_size_bytes)
        timed.api = api
        timed.weight = weight
        timed.arrived_s = arrived_s
        timed.began_s = timed.handled_s = timed.answered_s = timed.sending_s = 0.0
        return timed

    def context_again(
        self,
        connection: Replier,
        route: Route,
        api_version: int,
        correlation_id: int,
        client_id: str | None = None,
        frame_size_bytes: int = 0,
    ) -> PendingRequest:
        """The context of a request that was counted already: its answer is, its time is not."""
        counted = _Counted(
            connection, route, api_version, correlation_id, client_id, frame_size_bytes
        )
        counted.api = self.of(route)
        return counted

    def of(self, route: Route) -> ApiMetrics:
        """What is counted of an API."""
        try:
            return self.apis[route.api_key]
        except KeyError:
            api = self.apis[route.api_key] = ApiMetrics(route.name)
            return api


class WatchedConnection(Replier, Protocol):
    """What is needed of the connection of a request."""

    @property
    def arrived_s(self) -> float:
        """When the latest bytes arrived, by `time.perf_counter`."""
        ...


class _Counted(PendingRequest):
    """A request whose answer is counted."""

    __slots__ = ("api",)
    api: ApiMetrics

    def reply_without_errors(self, *parts: Buffer) -> None:
        """See `PendingRequest`."""
        if not self._gone:
            self.api.answered_without_errors(1, sum(map(len, parts)))
        super().reply_without_errors(*parts)

    def leave(self, parts: list[Buffer]) -> None:
        """See `PendingRequest`."""
        self.api.answered_without_errors(1, sum(map(len, parts)))
        self.answered = True

    def _frame(self, kind: type[Message], body: bytes, errors: Sequence[int]) -> list[Buffer]:
        api = self.api
        api.errors.update(errors or (NONE,))
        parts = super()._frame(kind, body, errors)
        api.response_bytes += sum(map(len, parts))
        return parts

    def _encode(self, message: Message) -> list[Buffer]:
        api = self.api
        api.answering(message)
        parts = PendingRequest._encode(self, message)
        api.response_bytes += len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        return parts


class _Timed(_Counted):
    """A request whose time is taken, too."""

    __slots__ = ("answered_s", "arrived_s", "began_s", "handled_s", "sending_s", "weight")
    arrived_s: float
    began_s: float
    handled_s: float
    answered_s: float
    sending_s: float
    weight: int

    def began(self, at_s: float) -> None:
        """See `PendingRequest`."""
        self.began_s, self.handled_s = at_s, perf_counter()

    def answering(self, pieces: Pieces) -> Pieces:
        """See `PendingRequest`: the handler has not returned before the pieces are done."""
        yield from super().answering(pieces)
        self.handled_s = perf_counter()
        return None

    def reply_now(self, make: Callable[[], Message | Pieces | list[Buffer]]) -> None:
        """See `PendingRequest`: what it waited for is there, and it is the next to be sent."""
        self.answered_s = self.sending_s = perf_counter()
        super().reply_now(make)

    def leave(self, parts: list[Buffer]) -> None:
        """See `PendingRequest`: its handler has made the answer, and did not wait."""
        super().leave(parts)
        if self.began_s:
            times_s = (self.began_s - self.arrived_s, perf_counter() - self.began_s, 0.0, 0.0)
            self.api.done(times_s, self.weight)

    def take_pieces(self) -> Pieces | None:
        """See `PendingRequest`: this answer is the next to be sent, since the first call."""
        if not self.sending_s:
            self.sending_s = perf_counter()
        return super().take_pieces()

    def take_parts(self) -> list[Buffer]:
        """See `PendingRequest`: the answer leaves."""
        parts = super().take_parts()
        began_s, answered_s, sending_s = self.began_s, self.answered_s, self.sending_s
        if began_s:
            # A handler that has answered before it returned has not waited.
            handled_s = min(self.handled_s or answered_s, answered_s)
            times_s = (
                began_s - self.arrived_s,
                handled_s - began_s + perf_counter() - sending_s,
                answered_s - handled_s,
                sending_s - answered_s,
            )
            self.api.done(times_s, self.weight)
        return parts

    def _settle(self) -> None:
        if not self.answered_s:
            self.answered_s = perf_counter()
        super()._settle()


def _timed(handler: Handler) -> Handler:
    """The handler, with its context told when it begins and returns."""

    def handle(context: PendingRequest, request: Message) -> Message | Pieces | None:
        if type(context) is not _Timed:
            return handler(context, request)
        context.began_s = perf_counter()
        answer = handler(context, request)
        if answer is None:
            context.handled_s = perf_counter()
        return answer

    return handle


def _timed_bytes(take: BytesHandler) -> BytesHandler:
    """The same for what takes a request from its bytes."""

    def take_bytes(
        context: PendingRequest, frame: memoryview, body_start: int
    ) -> bool | list[Buffer]:
        if type(context) is not _Timed:
            return take(context, frame, body_start)
        context.began_s = perf_counter()
        taken = take(context, frame, body_start)
        context.handled_s = perf_counter()
        return taken

    return take_bytes


def count_errors_in(kind: type[Struct]) -> CountErrors | None:
    """What counts the errors in structs of this class; None if it has none to count."""
    has_own = False
    nested: list[tuple[str, bool, CountErrors]] = []
    for field in kind.fields:
        if field.name == ERROR_FIELD:
            has_own = True
        elif field.struct is not None:
            inner = count_errors_in(field.struct)
            if inner is not None:
                nested.append((field.name, field.is_array, inner))
    if not nested:
        return _count_own if has_own else None

    def count(struct: Any, errors: Counter[int]) -> int:
        found = _count_own(struct, errors) if has_own else 0
        for name, is_array, inner in nested:
            value = getattr(struct, name)
            if not value:
                continue
            for one in value if is_array else (value,):
                if inner is not _count_own:
                    found += inner(one, errors)
                elif one.error_code:  # what `_count_own` does: there may be thousands of these
                    errors[one.error_code] += 1
                    found += 1
        return found

    return count


def _count_own(struct: Any, errors: Counter[int]) -> int:
    code = struct.error_code
    if not code:
        return 0
    errors[code] += 1
    return 1
