"""Which API is served by which handler, in which versions, and what a handler is given.

Theory of operation
-------------------
A module under `broker/apis/` serves one API: it decorates a function with `handles`. What is
registered is what ApiVersions advertises; there is no second list.

A node has listeners of two kinds, for clients (`BROKER`) and for the quorum (`CONTROLLER`), and an
API is served on those that `handles` names. The same API may mean different things on them, and has
two handlers then (Fetch reads topics from a broker, the metadata log from a controller).

A handler is called synchronously from the bytes' arrival with a `RequestContext`, the decoded
request, and the parts of the node that it needs: these are its keyword-only parameters, each with
the part's class for its annotation. `bind_routes` gives them out once, when a listener starts, so
a handler's signature says all it can reach, and a listener that lacks a part does not start.

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

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from inspect import Parameter, isgeneratorfunction, signature
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from fencepost.runtime import cooperative
from fencepost.wire.message import Message

Pieces = cooperative.Pieces[Message | None]
Handler = Callable[..., Message | Pieces | None]
"""Takes a RequestContext, the request, and parts of the node by keyword."""
BytesHandler = Callable[..., bool]
"""Takes a RequestContext, a frame, where the body starts in it, and parts of the node by keyword.
Says whether it has taken the request; if not, nothing has happened."""
Parts = Mapping[Any, object]
"""The parts of a node that handlers may ask for, by their classes or protocols."""

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
PRODUCE_KEY: Final = 0
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
    in_pieces: bool = False
    """Whether the handler returns before it is through, when there is much to do."""
    take_bytes: BytesHandler | None = None
    """What is asked first, before the request is decoded."""
    unstable_max_version: int | None = None
    """The highest version with `unstable.api.versions.enable`, if that is another one."""


class DuplicateRouteError(Exception):
    """Two handlers want the same API: a mistake of ours."""


ROUTES: dict[int, Route] = {}
"""What is served to clients, by API key."""
CONTROLLER_ROUTES: dict[int, Route] = {}
"""What is served on controller listeners, by API key."""
ROUTES_BY_KIND: Final = {BROKER: ROUTES, CONTROLLER: CONTROLLER_ROUTES}


def parse_versions(versions: str) -> tuple[int, int]:
    """ "2-4" -> (2, 4); "0" -> (0, 0)."""
    low, _, high = versions.partition("-")
    return int(low), int(high or low)


def handles(
    request_class: type[Message],
    *,
    versions: str,
    advertise_from: int | None = None,
    max_elements: int | None = None,
    unstable: int | None = None,
    listeners: tuple[str, ...] = (BROKER,),
    in_pieces: bool = False,
    take_bytes: BytesHandler | None = None,
) -> Callable[[Handler], Handler]:
    """Register the decorated function as the handler of `request_class` in `versions`.

    `advertise_from` is a lower minimum to advertise than is served (Produce, KAFKA-18659).
    Clients whose requests have more than `max_elements` array elements are disconnected: nothing
    else happens in the node while a request is being decoded. Without it, that is MAX_ELEMENTS, but
    WHOLE_REQUEST_ELEMENTS_MAX for what clients send to a handler that does not work in pieces:
    nothing else happens until it has returned. A generator function works in pieces; another
    handler does with `in_pieces`, if it returns the pieces of whatever may be much. `listeners` are
    the kinds of listeners that serve it. `take_bytes` is asked first about each request, before it
    is decoded. `unstable` is a version behind `versions` that Kafka may still change: it is served
    with `unstable.api.versions.enable` alone.
    """
    min_version, max_version = parse_versions(versions)
    assert request_class.min_version <= min_version <= max_version <= request_class.max_version
    assert unstable is None or (
        request_class.latest_unstable and unstable == request_class.max_version == max_version + 1
    )
    api_key = request_class.api_key
    assert api_key is not None

    def register(handler: Handler) -> Handler:
        works_in_pieces = in_pieces or isgeneratorfunction(handler)
        is_whole = BROKER in listeners and not works_in_pieces
        usual_max = WHOLE_REQUEST_ELEMENTS_MAX if is_whole else MAX_ELEMENTS
        route = Route(
            api_key=api_key,
            name=request_class.__name__.removesuffix("Request"),
            request_class=request_class,
            min_version=min_version,
            max_version=max_version,
            advertised_min_version=min_version if advertise_from is None else advertise_from,
            handler=handler,
            max_elements=usual_max if max_elements is None else max_elements,
            in_pieces=works_in_pieces,
            take_bytes=take_bytes,
            unstable_max_version=unstable,
        )
        for kind in listeners:
            if api_key in ROUTES_BY_KIND[kind]:
                raise DuplicateRouteError(f"api key {api_key} has two handlers for {kind}s")
            ROUTES_BY_KIND[kind][api_key] = route
        return handler

    return register


class MissingPartError(Exception):
    """A handler needs what the node of its listener does not have: a mistake of ours."""


def bind_routes(
    routes: Mapping[int, Route], parts: Parts, *, unstable: bool = False
) -> dict[int, Route]:
    """The routes with handlers that have what they need, and with versions that Kafka may still
    change if `unstable`. MissingPartError if `parts` lacks something."""
    bound = {}
    for key, route in routes.items():
        highest = route.unstable_max_version if unstable else None
        bound[key] = replace(
            route,
            handler=_bind(route.handler, parts),
            take_bytes=None if route.take_bytes is None else _bind(route.take_bytes, parts),
            max_version=route.max_version if highest is None else highest,
        )
    return bound


def _bind(handler: Callable[..., Any], parts: Parts) -> Callable[..., Any]:
    given = {}
    for name, parameter in signature(handler, eval_str=True).parameters.items():
        if parameter.kind is Parameter.KEYWORD_ONLY:
            if parameter.annotation not in parts:
                raise MissingPartError(f"{handler.__module__} needs {parameter.annotation!r}")
            given[name] = parts[parameter.annotation]
    return partial(handler, **given) if given else handler


def advertised_routes(routes: Iterable[Route]) -> list[tuple[int, int, int]]:
    """(api key, min version, max version) of everything served, by key."""
    return sorted((r.api_key, r.advertised_min_version, r.max_version) for r in routes)
