"""Which API is served by which handler, in which versions, and what a handler is given.

Theory of operation
-------------------
A module under `broker/apis/` serves one API: it decorates a function with `handles`. The versions
and the kinds of listeners are in the table of `served`, from which ApiVersions answers; a handler
without a row there cannot be registered, and a test looks for rows without a handler.

A node has listeners of two kinds, for clients (`BROKER`) and for the quorum (`CONTROLLER`), and an
API is served on those that `handles` names. The same API may mean different things on them, and has
two handlers then (Fetch reads topics from a broker, the metadata log from a controller).

A handler is called synchronously from the bytes' arrival with a `PendingRequest`, the decoded
request, and the parts of the node that it needs: these are its keyword-only parameters, each with
the part's class for its annotation, or a named tuple of parts. They are given out when the first
request of the API comes and the handler's module is loaded (`Routes`), so a handler's signature
says all it can reach. Whether a
node has the parts of all its handlers is known by test, not at the start.

It either returns the response or returns None and answers later through the context:

* `reply(message)`: the response is there.
* `reply_lazily(make)`: the response may be made now; `make()` is called when the connection is
  ready to send it. For answers that carry log data, so that a client that asks for much and reads
  slowly holds one such answer in memory and not one per request.
* `reply_in_pieces(pieces)`: the same for an answer that takes long to make: `pieces` is a generator
  (see `fencepost.runtime.cooperative`), begun when the connection is ready to send what it returns.
* `reply_now(make)`: the same, made at once, of a request that `is_next`.
* `no_reply()`: the protocol has no response here (Produce with acks=0).
* `close(reason)`: the protocol says to disconnect.

A handler that may have much to do is a generator function, or returns a generator if it has, see
`fencepost.runtime.cooperative`.

Responses leave in the order of the requests, whatever the order of the answers.

`memoryview`s inside a request (`Records`) point into a receive buffer that is used again: they are
good until the handler returns. Everything else in a request is the handler's to keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from inspect import isgeneratorfunction
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from fencepost.broker.net.run_taker import RunTaker
from fencepost.broker.net.served import (
    BROKER as BROKER,
    CONTROLLER as CONTROLLER,
    SERVED_BY_KIND,
    Served,
)
from fencepost.runtime.requests.context import Pieces
from fencepost.runtime.requests.parts import Parts, bind_parts
from fencepost.wire.message import Message
from fencepost.wire.types import Buffer

Handler = Callable[..., Message | Pieces | None]
"""Takes a PendingRequest, the request, and parts of the node by keyword."""
BytesHandler = Callable[..., bool | list[Buffer]]
"""Takes a PendingRequest, a frame, where the body starts in it, and parts of the node by keyword.
Says whether it has taken the request; if not, nothing has happened. What it returns instead is the
answer to a request that `is_next`, as `reply_without_errors` takes it."""
RunTakerFactory = Callable[..., RunTaker | None]
"""Takes parts of the node by keyword; returns what takes runs of a route's requests, or None where
that is not possible (without the compiled module)."""

HANDLERS: Final = "fencepost.broker.apis."
"""The package of the handlers, which are above this room: it loads them by name."""
API_VERSIONS_KEY: Final = 18
MAX_ELEMENTS = 100_000
"""Array elements a request may have, unless its handler says otherwise."""
WHOLE_REQUEST_ELEMENTS_MAX = 20_000
"""The same for requests that are decided in one go, not in pieces."""


class Route(Struct, frozen=True):
    """How one API is served."""

    api_key: int
    name: str
    request_class: type[Message]
    min_version: int
    max_version: int
    advertised_min_version: int
    handler: Handler
    max_elements: int = MAX_ELEMENTS
    stores_text: bool = False
    """Whether it is refused as INVALID_REQUEST when it has a text that is not UTF-8."""
    in_pieces: bool = False
    """Whether the handler returns before it is through, when there is much to do."""
    take_bytes: BytesHandler | None = None
    """What is asked first, before the request is decoded."""
    run_taker: RunTaker | None = None
    """What is offered several requests, before they are looked at one by one."""
    make_run_taker: RunTakerFactory | None = None
    """What makes it of the node's parts."""
    is_opaque: bool = False
    """Whether requests carry bytes that are not decoded: a long one is not much work."""
    is_collected: bool = False
    """Whether what requests bring is collected, and takes effect together; at the latest before a
    request of another API is handled."""
    unstable_max_version: int | None = None
    """The highest version with `unstable.api.versions.enable`, if that is another one."""

    @property
    def advertised(self) -> tuple[int, int]:
        """The lowest and the highest version that ApiVersions says."""
        return self.advertised_min_version, self.max_version


class DuplicateRouteError(Exception):
    """Two handlers want the same API: a mistake of ours."""


ROUTES: dict[int, Route] = {}
"""What is served to clients, by API key, as far as it is loaded."""
CONTROLLER_ROUTES: dict[int, Route] = {}
"""What is served on controller listeners, by API key, as far as it is loaded."""
ROUTES_BY_KIND: Final = {BROKER: ROUTES, CONTROLLER: CONTROLLER_ROUTES}


def handles(
    request_class: type[Message],
    *,
    max_elements: int | None = None,
    listeners: tuple[str, ...] = (BROKER,),
    in_pieces: bool = False,
    stores_text: bool = False,
    take_bytes: BytesHandler | None = None,
    run_taker: RunTakerFactory | None = None,
    is_opaque: bool = False,
    is_collected: bool = False,
) -> Callable[[Handler], Handler]:
    """Register the decorated function as the handler of `request_class`.

    Clients whose requests have more than `max_elements` array elements are disconnected: nothing
    else happens in the node while a request is being decoded. Without it, that is MAX_ELEMENTS, but
    WHOLE_REQUEST_ELEMENTS_MAX for what clients send to a handler that does not work in pieces:
    nothing else happens until it has returned. A generator function works in pieces; another
    handler does with `in_pieces`, if it returns the pieces of whatever may be much. `listeners` are
    the kinds of listeners that serve it. With `stores_text` requests with a text that is not UTF-8
    are INVALID_REQUEST: it would be stored, and could not come back as it was sent. `take_bytes` is
    asked first about each request, before it is decoded; what `run_taker` makes is offered several,
    before that. `is_opaque` and `is_collected` as in `Route`.
    """
    api_key = request_class.api_key
    assert api_key is not None

    def register(handler: Handler) -> Handler:
        works_in_pieces = in_pieces or isgeneratorfunction(handler)
        is_whole = BROKER in listeners and not works_in_pieces
        default_max = WHOLE_REQUEST_ELEMENTS_MAX if is_whole else MAX_ELEMENTS
        for kind in listeners:
            served = SERVED_BY_KIND[kind][api_key]
            _check_versions(served, request_class)
            if api_key in ROUTES_BY_KIND[kind]:
                raise DuplicateRouteError(f"api key {api_key} has two handlers for {kind}s")
            ROUTES_BY_KIND[kind][api_key] = Route(
                api_key=api_key,
                name=request_class.__name__.removesuffix("Request"),
                request_class=request_class,
                min_version=served.min_version,
                max_version=served.max_version,
                advertised_min_version=served.advertised_min_version,
                handler=handler,
                max_elements=default_max if max_elements is None else max_elements,
                in_pieces=works_in_pieces,
                stores_text=stores_text,
                take_bytes=take_bytes,
                make_run_taker=run_taker,
                is_opaque=is_opaque,
                is_collected=is_collected,
                unstable_max_version=served.unstable,
            )
        return handler

    return register


def _check_versions(served: Served, request_class: type[Message]) -> None:
    low, high = served.min_version, served.max_version
    assert request_class.min_version <= low <= high <= request_class.max_version
    assert served.unstable is None or (
        request_class.latest_unstable and served.unstable == request_class.max_version == high + 1
    )


class Routes(MutableMapping[int, Route]):
    """Routes by API key, each made by `make` when it is first asked for.

    What is advertised is known without making any: `advertised` has the lowest and the highest
    version by API key. Routes that are there already can be added, and take the others' place.
    """

    def __init__(
        self, advertised: Mapping[int, tuple[int, int]], make: Callable[[int], Route]
    ) -> None:
        self.advertised = dict(advertised)
        self._make = make
        self._made: dict[int, Route] = {}

    def __getitem__(self, api_key: int) -> Route:
        route = self._made.get(api_key)
        if route is None:
            if api_key not in self.advertised:
                raise KeyError(api_key)
            route = self._made[api_key] = self._make(api_key)
        return route

    def __setitem__(self, api_key: int, route: Route) -> None:
        self._made[api_key] = route
        self.advertised[api_key] = route.advertised

    def __delitem__(self, api_key: int) -> None:
        del self.advertised[api_key]
        self._made.pop(api_key, None)

    def __iter__(self) -> Iterator[int]:
        return iter(self.advertised)

    def __len__(self) -> int:
        return len(self.advertised)

    def each(self, change: Callable[[Route], Route]) -> Routes:
        """These routes, each changed when it is first asked for."""
        return Routes(self.advertised, lambda api_key: change(self[api_key]))


def served_routes(kind: str, parts: Parts, *, unstable: bool = False) -> Routes:
    """What listeners of this kind serve, with versions that Kafka may still change if `unstable`.

    The first request of an API loads its module, and gives the handler what it needs of `parts`.
    """
    advertised = {}
    for key, row in SERVED_BY_KIND[kind].items():
        highest = row.unstable if unstable else None
        advertised[key] = (
            row.advertised_min_version,
            row.max_version if highest is None else highest,
        )

    def make(api_key: int) -> Route:
        import_module(HANDLERS + SERVED_BY_KIND[kind][api_key].module)
        return bind_route(ROUTES_BY_KIND[kind][api_key], parts, unstable=unstable)

    return Routes(advertised, make)


def bind_route(route: Route, parts: Parts, *, unstable: bool = False) -> Route:
    """The route with handlers that have what they need. MissingPartError if `parts` lacks it."""
    highest = route.unstable_max_version if unstable else None
    make_taker = None if route.make_run_taker is None else bind_parts(route.make_run_taker, parts)
    return replace(
        route,
        handler=bind_parts(route.handler, parts),
        run_taker=None if make_taker is None else make_taker(),
        take_bytes=None if route.take_bytes is None else bind_parts(route.take_bytes, parts),
        max_version=route.max_version if highest is None else highest,
    )
