"""What is counted of requests, by API: how many, how long, how large, and with which errors.

Theory of operation
-------------------
A listener that is watched has a `RequestMetrics`, whose contexts take the place of the usual ones
and note when what happens to their request. Where nobody watches nothing is measured.

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
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any, Final, Protocol

from fencepost.broker.loop.distribution import Distribution
from fencepost.broker.net.registry import Handler, Pieces, Route
from fencepost.broker.net.request_context import Buffer, Replier, RequestContext
from fencepost.wire.message import Message, Struct

ERROR_FIELD: Final = "error_code"
NONE: Final = 0

CountErrors = Callable[[Any, "Counter[int]"], int]
"""Counts the errors in a struct, and says how many there are."""


class ApiMetrics:
    """What is counted of one API on one listener. Times are in milliseconds, sizes in bytes."""

    __slots__ = (
        "_count_errors",
        "errors",
        "local_ms",
        "name",
        "queue_ms",
        "remote_ms",
        "request_bytes",
        "response_bytes",
        "response_queue_ms",
        "total_ms",
        "versions",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        """Kafka's name of the API, such as `Produce`."""
        self.versions: Counter[int] = Counter()
        """Requests by their version."""
        self.errors: Counter[int] = Counter()
        """Errors in answers by their code."""
        self.queue_ms = Distribution()
        self.local_ms = Distribution()
        self.remote_ms = Distribution()
        self.response_queue_ms = Distribution()
        self.total_ms = Distribution()
        self.request_bytes = 0
        self.response_bytes = 0
        self._count_errors: dict[type[Struct], CountErrors | None] = {}

    def began(self, version: int, frame_bytes: int) -> None:
        """A request is handed to its handler."""
        self.versions[version] += 1
        self.request_bytes += frame_bytes

    def answering(self, response: Message) -> None:
        """This is the answer to a request."""
        kind = type(response)
        try:
            count = self._count_errors[kind]
        except KeyError:
            count = self._count_errors[kind] = count_errors_in(kind)
        if count is None or not count(response, self.errors):
            self.errors[NONE] += 1

    def done(
        self, queue_s: float, local_s: float, remote_s: float, response_queue_s: float
    ) -> None:
        """The answer goes to the output, after so much time in each part."""
        self.queue_ms.add(queue_s * 1e3)
        self.local_ms.add(local_s * 1e3)
        self.remote_ms.add(remote_s * 1e3)
        self.response_queue_ms.add(response_queue_s * 1e3)
        self.total_ms.add((queue_s + local_s + remote_s + response_queue_s) * 1e3)
        self.total_ms.count_if_many()
        if not self.total_ms.fresh:
            for one in (self.queue_ms, self.local_ms, self.remote_ms, self.response_queue_ms):
                one.count_now()


class RequestMetrics:
    """What is counted of the requests of one listener."""

    def __init__(self) -> None:
        self.apis: dict[int, ApiMetrics] = {}
        """By API key: those that were asked for."""

    def watch(self, routes: Mapping[int, Route]) -> dict[int, Route]:
        """The routes, with handlers that say when they begin and return."""
        return {key: replace(route, handler=_timed(route.handler)) for key, route in routes.items()}

    def new_context(
        self,
        connection: WatchedConnection,
        route: Route,
        api_version: int,
        correlation_id: int,
        client_id: str | None = None,
        frame_size_bytes: int = 0,
    ) -> RequestContext:
        """The context of a request that is measured."""
        key = route.api_key
        try:
            api = self.apis[key]
        except KeyError:
            api = self.apis[key] = ApiMetrics(route.name)
        context = _Watched(
            connection, route, api_version, correlation_id, client_id, frame_size_bytes
        )
        context.api = api
        context.arrived_s = connection.arrived_s
        context.began_s = context.handled_s = context.sending_s = 0.0
        return context


class WatchedConnection(Replier, Protocol):
    """What is needed of the connection of a request."""

    @property
    def arrived_s(self) -> float:
        """When the latest bytes arrived, by `time.perf_counter`."""
        ...


class _Watched(RequestContext):
    """A request that is measured."""

    __slots__ = ("answered_s", "api", "arrived_s", "began_s", "handled_s", "sending_s")
    api: ApiMetrics
    arrived_s: float
    began_s: float
    handled_s: float
    answered_s: float
    sending_s: float

    def answering(self, pieces: Pieces) -> Pieces:
        """See `RequestContext`: the handler has not returned before the pieces are done."""
        self.handled_s = 0.0
        yield from super().answering(pieces)
        self.handled_s = perf_counter()
        return None

    def take_pieces(self) -> Pieces | None:
        """See `RequestContext`: this answer is the next to be sent, since the first call."""
        if not self.sending_s:
            self.sending_s = perf_counter()
        return super().take_pieces()

    def take_parts(self) -> list[Buffer]:
        """See `RequestContext`: the answer leaves."""
        parts = super().take_parts()
        api = self.api
        api.response_bytes += sum(map(len, parts))
        began_s, answered_s, sending_s = self.began_s, self.answered_s, self.sending_s
        if began_s:
            # A handler that has answered before it returned has not waited.
            handled_s = min(self.handled_s or answered_s, answered_s)
            api.done(
                began_s - self.arrived_s,
                handled_s - began_s + perf_counter() - sending_s,
                answered_s - handled_s,
                sending_s - answered_s,
            )
        return parts

    def _encode(self, message: Message) -> list[Buffer]:
        self.api.answering(message)
        return super()._encode(message)

    def _settle(self) -> None:
        self.answered_s = perf_counter()
        super()._settle()


def _timed(handler: Handler) -> Handler:
    """The handler, with its context told when it begins and returns."""

    def handle(context: RequestContext, request: Message) -> Message | Pieces | None:
        if not isinstance(context, _Watched):  # it came in an Envelope, which is measured
            return handler(context, request)
        context.api.began(context.api_version, context.frame_size_bytes)
        context.began_s = perf_counter()
        answer = handler(context, request)
        if answer is None:
            context.handled_s = perf_counter()
        return answer

    return handle


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
            if is_array:
                for one in value or ():
                    found += inner(one, errors)
            elif value is not None:
                found += inner(value, errors)
        return found

    return count


def _count_own(struct: Any, errors: Counter[int]) -> int:
    code = struct.error_code
    if not code:
        return 0
    errors[code] += 1
    return 1
