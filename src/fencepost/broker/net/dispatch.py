"""The frames of one connection go to the handlers of their APIs.

Whatever is not a well-formed request of a served version closes the connection with one log line.
Texts that are not UTF-8 are well-formed, as in Kafka: they have U+FFFD for what cannot be decoded
(`ReplacedText`), and name what is not there. Where such a text would be stored, and could not come
back as it was sent, the request is refused: by its handler, or here if it `stores_text`.

A route's handler gets decoded requests. Before it may come a `RunTaker`, which takes several
requests where they were received, and `take_bytes`, which takes one; what they leave is decoded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from struct import Struct
from typing import Any, Protocol

from fencepost.broker.net.answers import Answers
from fencepost.broker.net.host import Host
from fencepost.broker.net.pending_request import PendingRequest, Replier
from fencepost.broker.net.registry import API_VERSIONS_KEY, Route
from fencepost.broker.net.remembered_headers import RememberedHeaders
from fencepost.broker.net.run_taker import RunConnection, RunSlot
from fencepost.machines.image.acls import AuthorizerNotReadyError
from fencepost.machines.session import Session
from fencepost.wire.errors import DecodeError, ErrorCode, TextDecodeError
from fencepost.wire.message import Message

log = logging.getLogger(__name__)

MAX_REQUESTS_IN_FLIGHT = 64

_HEAD = Struct(">hhi")
_KEYS = Struct(">4xI")  # API key and version, behind the length


class DispatchingConnection(Replier, RunConnection, Protocol):
    """What is needed of the connection."""

    def flush(self) -> None:
        """Write what is in the output, and read on."""
        ...

    def admit(self, context: PendingRequest) -> bool:
        """Whether the session lets a request through; if not it is refused, or the connection
        closed."""
        ...


class Dispatcher:
    """That of one connection; see the module docstring."""

    __slots__ = (
        "_answers",
        "_connection",
        "_headers",
        "_host",
        "_new_context",
        "_now_ms",
        "_routes",
        "_session",
        "at_work",
    )

    def __init__(
        self,
        connection: DispatchingConnection,
        host: Host,
        answers: Answers,
        session: Session,
        now_ms: Callable[[], int],
    ) -> None:
        self._connection = connection
        self._host = host
        self._answers = answers
        self._session = session
        self._now_ms = now_ms
        self._routes = host.routes
        self._new_context = host.new_context
        self._headers = RememberedHeaders()
        self.at_work = False
        """A handler works in pieces: what comes behind its request waits."""

    def take_run(self, view: memoryview, start: int, end: int) -> int:
        """Take as many requests from the front of view[start:end] as a taker takes; where the first
        begins that was not taken."""
        runs = self._headers.runs
        has_keys = runs and end - start >= _KEYS.size
        run = runs.get(_KEYS.unpack_from(view, start)[0]) if has_keys else None
        if run is None:
            return start
        taker, head, name = run
        session, answers = self._session, self._answers
        if session.is_guarded and not session.serves_all(self._now_ms()):
            return start
        room = MAX_REQUESTS_IN_FLIGHT - len(answers.waiting)
        answers.is_held = True
        try:
            start = taker.take(self._connection, view, start, end, head, room)
        except Exception:
            log.exception("%s from %s failed", name, self._connection)
            self._connection.close(f"{name} failed")
            return end
        finally:
            answers.is_held = False
        answers.frame_bytes += taker.latest_bytes
        if answers.waiting and answers.waiting[0].answered:
            answers.drain()
        return start

    def may_answer(self) -> bool:
        """See `RunConnection`."""
        self._host.before_others()
        return self._answers.is_free

    def queue(
        self, api_key: int, version: int, correlation_id: int, frame_size_bytes: int
    ) -> PendingRequest:
        """See `RunConnection`."""
        client_id = self._headers.client_id(api_key, version)
        context = self._new_context(
            self._connection,
            self._routes[api_key],
            version,
            correlation_id,
            client_id,
            frame_size_bytes,
        )
        self._answers.add(context)
        return context

    def replace_slot(self, slot: RunSlot, route: Route) -> PendingRequest | None:
        """An ordinary context in the queue place of a taker's slot, whose request is counted
        already; None if the slot has no place there any more."""
        version = slot.version

        def make() -> PendingRequest:
            context = self._host.context_again(
                self._connection,
                route,
                version,
                slot.correlation_id,
                self._headers.client_id(route.api_key, version),
                slot.frame_size_bytes,
            )
            context.throttle(slot.throttle_time_ms)
            return context

        return self._answers.replace_slot(slot, make)

    def is_opaque(self, frame: memoryview, start: int) -> bool:
        """Whether the request that begins there carries bytes that are not decoded, so that its
        size says nothing about its work."""
        try:
            route = self._routes.get(_HEAD.unpack_from(frame, start)[0])
        except OSError:  # a file descriptor is missing to load its module with
            return False
        return route is not None and route.is_opaque

    def dispatch(self, frame: memoryview) -> None:
        """Hand one frame to its handler."""
        connection = self._connection
        api_key, version, correlation_id = _HEAD.unpack_from(frame, 0)
        try:
            route = self._routes[api_key]
        except KeyError:
            connection.close(f"api key {api_key} (version {version}) is not served here")
            return
        except OSError as error:  # a file descriptor is missing to load its module with
            connection.close(f"api key {api_key} (version {version}) cannot be served now: {error}")
            return
        context = self._new_context(connection, route, version, correlation_id, None, len(frame))
        if self._session.is_guarded and not connection.admit(context):
            return
        if not route.min_version <= version <= route.max_version:
            self._refuse_version(context)
            return
        is_refused = False
        try:
            context.client_id, body_start = self._headers.read(frame, route, version)
            if self._host.quotas.is_on:
                self._host.quotas.begun(context)
            if route.take_bytes is not None and self._take_bytes(context, frame, body_start):
                return
            # What is left over is passed over, as Kafka does: librdkafka (2.16) sends three bytes
            # too many with Metadata v13 when it asks for all topics.
            try:
                request, _ = route.request_class.read(
                    frame, body_start, version, max_elements=route.max_elements
                )
            except TextDecodeError:
                request, _ = route.request_class.read_replacing(
                    frame, body_start, version, max_elements=route.max_elements
                )
                is_refused = route.stores_text
        except DecodeError as error:
            connection.close(f"malformed {route.name} v{version}: {error}")
            return
        self._answers.add(context)
        if is_refused:
            context.fail(ErrorCode.INVALID_REQUEST)
            return
        if not route.is_collected:
            self._host.before_others()
        self._handle(context, request)

    def _handle(self, context: PendingRequest, request: Message) -> None:
        route = context.route
        try:
            answer = route.handler(context, request)
            if isinstance(answer, Message):
                context.reply(answer)
            elif answer is not None:
                self.at_work = not self._answers.work_on(context, answer, self._work_done)
        except AuthorizerNotReadyError:
            context.fail()
        except Exception:
            log.exception(
                "%s v%d from %s failed", route.name, context.api_version, self._connection
            )
            context.fail()
        if self._host.quotas.is_on:
            self._host.quotas.returned(context)

    def _take_bytes(self, context: PendingRequest, frame: memoryview, body_start: int) -> bool:
        """Whether a request was taken before it is decoded."""
        answers, route = self._answers, context.route
        take_bytes = route.take_bytes
        assert take_bytes is not None, "the route has none"
        answers.add(context)
        if not route.is_collected:
            self._host.before_others()
        try:
            taken: Any = take_bytes(context, frame, body_start)
        except Exception:
            log.exception(
                "%s v%d from %s failed", route.name, context.api_version, self._connection
            )
            context.fail()
            taken = True
        if taken is False:
            answers.take_back()
            return False
        if taken is not True:
            answers.put_next(context, taken)
        if self._host.quotas.is_on:
            self._host.quotas.returned(context)
        return True

    def _work_done(self) -> None:
        """A handler that worked in pieces is through: on to what came behind its request."""
        self.at_work = False
        self._connection.flush()

    def _refuse_version(self, context: PendingRequest) -> None:
        """Disconnect, except for ApiVersions, whose v0 answer every client can read (KIP-511)."""
        route, version = context.route, context.api_version
        if route.api_key != API_VERSIONS_KEY:
            self._connection.close(
                f"{route.name} v{version} is not served here, "
                f"v{route.min_version} to v{route.max_version} are"
            )
            return
        context.api_version = 0
        self._answers.add(context)
        from fencepost.broker.net.unsupported_version import unsupported_version_response

        context.reply(unsupported_version_response(route))
