"""One client's connection through a gate: requests to the broker, answers to the client.

Theory of operation
-------------------
Both directions are cut into whole frames. A request is looked at when its turn comes: it may wait
(delay, hold, a cut or slow link), be answered here (a failure), end the connection, or be passed
on. While one waits, those behind it wait too: Kafka keeps the order of a connection, so a fault
must not break it.

Every request that has an answer has a place in `_places`, in order. The answer of a failure is put
there at once, the broker's when it comes, and they leave in order; an answer may wait as well
(faults with `after`, slow links). Produce with acks=0 has no answer, so no place.

A fetch in an incremental session does not list its partitions, so its answer could not say an
error of each, nor could its topics be known. Such a fetch is first answered with
FETCH_SESSION_ID_NOT_FOUND, which a broker may say at any time, and meets the fault when the client
comes back with a list of everything.

When a buffer is full, the other end is not read from. When an end closes, the other one is closed
when what was sent before has been passed on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from fencepost.testing.faults.error_answers import (
    ABOUT_PARTITION,
    FETCH,
    PRODUCE,
    SPOILED,
    error_answer,
    spoil,
)
from fencepost.testing.faults.frames import (
    MIN_REQUEST_BYTES,
    MIN_RESPONSE_BYTES,
    FrameCutter,
    RequestHead,
    correlation_id_of,
    request_head,
)
from fencepost.testing.faults.links import End, SlowWay, sender_of
from fencepost.testing.faults.rules import Fault
from fencepost.wire.api import API_NAMES, request_class, response_class
from fencepost.wire.errors import ErrorCode, WireError
from fencepost.wire.frame import (
    LENGTH_BYTES,
    decode_request,
    decode_response,
    encode_response,
    read_request_header,
)
from fencepost.wire.message import Message

if TYPE_CHECKING:
    from fencepost.testing.faults.state import FaultState

log = logging.getLogger(__name__)

WAITING_BYTES_MAX: Final = 8 * 1024 * 1024
WAITING_FRAMES_MAX: Final = 256
MAX_ELEMENTS: Final = 1_000_000
FIRST_SESSION_VERSION: Final = 7


class Entrance(Protocol):
    """What a relay needs of its gate."""

    node: int | None
    target: tuple[str, int]
    state: FaultState

    def entered(self, relay: Relay) -> bool:
        """A client has come; whether it may stay."""
        ...

    def left(self, relay: Relay) -> None:
        """A connection has ended."""
        ...


class _Side(asyncio.Protocol):
    """One of the two connections of a relay."""

    def __init__(self, relay: Relay, *, is_client: bool) -> None:
        self._relay = relay
        self._is_client = is_client
        self.transport: Any = None
        self.is_full = False
        """Whether it takes no more bytes for now."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._relay.connected(is_client=self._is_client)

    def data_received(self, data: bytes) -> None:
        self._relay.received(data, is_client=self._is_client)

    def connection_lost(self, exc: Exception | None) -> None:
        self._relay.lost(exc, is_client=self._is_client)

    def pause_writing(self) -> None:
        self.is_full = True
        self._relay.balance()

    def resume_writing(self) -> None:
        self.is_full = False
        self._relay.balance()


class _Wait:
    """Faults that something waits for: until each is lifted, or its delay is over."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, faults: Iterable[Fault], done: Callable[[], None]
    ) -> None:
        self._done = done
        self._left = {fault for fault in faults if not fault.is_lifted}
        self._timers = [
            loop.call_later(fault.delay_ms / 1000, self.end, fault)
            for fault in self._left
            if fault.kind == "delay"
        ]

    @property
    def is_over(self) -> bool:
        return not self._left

    def end(self, fault: Fault) -> None:
        """This one is over."""
        if fault in self._left:
            self._left.discard(fault)
            if not self._left:
                self._done()

    def cancel(self) -> None:
        """Stop waiting, without a call of `done`: the connection is closed."""
        self._left = set()
        for timer in self._timers:
            timer.cancel()


class _Place:
    """A request's place among the answers."""

    __slots__ = ("answer", "came_s", "faults", "head", "request", "wait")

    def __init__(
        self,
        head: RequestHead | None,
        request: Message | None = None,
        faults: list[Fault] | None = None,
        answer: bytes | None = None,
    ) -> None:
        self.head = head
        self.request = request
        self.faults = faults or []
        self.answer = answer
        self.came_s = 0.0
        """When the broker answered, by the loop's clock."""
        self.wait: _Wait | None = None


class Relay:
    """One client's connection through a gate; see the module docstring."""

    def __init__(self, gate: Entrance, loop: asyncio.AbstractEventLoop) -> None:
        self._gate = gate
        self._loop = loop
        self.client = _Side(self, is_client=True)
        self.server = _Side(self, is_client=False)
        self.sender: End = None
        self._heads = FrameCutter(MIN_REQUEST_BYTES)
        self._answers = FrameCutter(MIN_RESPONSE_BYTES)
        # Whether it is a frame, its bytes, and when it came.
        self._requests: deque[tuple[bool, bytes, float]] = deque()
        self._request_bytes = 0
        self._wait: _Wait | None = None  # what the first request waits for
        self._places: deque[_Place] = deque()
        self._way_in = SlowWay(loop, self._pump_requests)
        self._way_out = SlowWay(loop, self._pump_answers)
        self._answer_bytes = 0
        self._client_is_gone = self._server_is_gone = self._is_closed = False
        self._connecting: asyncio.Task[None] | None = None

    # -- what the two connections say ------------------------------------------------------

    def connected(self, *, is_client: bool) -> None:
        """The client has come, or the broker has been reached."""
        if not is_client:
            self._pump_requests()
        elif not self._gate.entered(self):
            self.abort()
        else:
            self._connecting = self._loop.create_task(self._reach())

    async def _reach(self) -> None:
        """Connect to the broker; if that cannot be, reset the client's connection."""
        host, port = self._gate.target
        try:
            await self._loop.create_connection(lambda: self.server, host, port)
        except OSError:
            self.abort()

    def received(self, data: bytes, *, is_client: bool) -> None:
        """Bytes have come."""
        cutter = self._heads if is_client else self._answers
        frames = cutter.feed(data)
        for number, frame in enumerate(frames, 1):
            is_frame = not (cutter.is_raw and number == len(frames))
            if is_client:
                self._requests.append((is_frame, frame, self._way_in.now_s()))
                self._request_bytes += len(frame)
            else:
                self._take_answer(frame, is_frame=is_frame)
        if is_client:
            self._pump_requests()
        else:
            self._pump_answers()
        self.balance()

    def lost(self, exc: Exception | None, *, is_client: bool) -> None:
        """A connection is gone: end the other one, when what came before has been passed on."""
        if is_client:
            self._client_is_gone = True
        else:
            self._server_is_gone = True
        if isinstance(exc, ConnectionResetError):
            self.abort()
        else:
            self._maybe_close()

    # -- requests --------------------------------------------------------------------------

    def _pump_requests(self) -> None:
        """Deal with requests until one has to wait."""
        while self._requests and self._wait is None and self._may_send_request():
            is_frame, data, _ = self._requests.popleft()
            self._request_bytes -= len(data)
            if is_frame:
                self._meet(data)
            else:
                self.server.transport.write(data)
        self._maybe_close()

    def _may_send_request(self) -> bool:
        is_frame, data, came_s = self._requests[0]
        if self.sender is None and is_frame:
            self.sender = sender_of(request_head(data).client_id)
        is_there = self.server.transport is not None and not self._is_closed
        links, node = self._gate.state.links, self._gate.node
        if not is_there or links.is_cut(self.sender, node):
            return False
        return self._way_in.may_pass(links.pace(self.sender, node), len(data), came_s)

    def _meet(self, frame: bytes) -> None:
        """A request's turn has come: see which faults it meets."""
        head = request_head(frame)
        rules, node = self._gate.state.rules, self._gate.node
        if not rules or not rules.may_match(head.api_key, head.client_id, node):
            self._pass_on(head, frame, None, [])
            return
        request = _decoded(frame)
        if request is not None and self._must_be_listed(head, request):
            self._answer(head, request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return
        topics = self._gate.state.topic_ids.topics_of
        faults = rules.take(
            head.api_key,
            head.client_id,
            node,
            lambda: set() if request is None else topics(request),
        )
        waits = [one for one in faults if one.kind in ("delay", "hold") and not one.after]
        if not waits:
            self._go_on(head, frame, request, faults)
            return

        def done() -> None:
            self._wait = None
            self._go_on(head, frame, request, faults)
            self._pump_requests()

        wait = _Wait(self._loop, waits, done)
        if wait.is_over:
            self._go_on(head, frame, request, faults)
        else:
            self._wait = wait

    def _must_be_listed(self, head: RequestHead, request: Any) -> bool:
        """Whether this is a fetch in a session, and a fault asks what only a full list tells."""
        if head.api_key != FETCH or head.version < FIRST_SESSION_VERSION:
            return False
        return request.session_epoch > 0 and self._gate.state.rules.asks_for_partitions(
            FETCH, head.client_id, self._gate.node, ABOUT_PARTITION
        )

    def _go_on(
        self, head: RequestHead, frame: bytes, request: Message | None, faults: list[Fault]
    ) -> None:
        """The request has waited enough: it fails here, or is passed on."""
        if self._is_closed:
            return
        failure = next((one for one in faults if one.kind in ("fail", "disconnect")), None)
        later = [one for one in faults if one.after]
        if failure is None or failure.after:
            self._pass_on(head, frame, request, later)
        elif failure.kind == "disconnect" or request is None:
            self.abort()
        elif head.api_key in SPOILED:
            self._pass_on(head, frame, request, [failure, *later])
        elif head.api_key == PRODUCE and request.acks == 0:  # type: ignore[attr-defined]
            self.abort()  # there is no answer to carry the error: Kafka's brokers disconnect
        else:
            self._answer(head, request, failure.error, later)

    def _answer(
        self, head: RequestHead, request: Message, error: int, later: list[Fault] | None = None
    ) -> None:
        """Answer here, with an error."""
        made = _failed(head, request, error)
        if made is None:
            self.abort()
            return
        self._answer_bytes += len(made)
        self._places.append(_Place(head, request, later, made))
        self._pump_answers()

    def _pass_on(
        self, head: RequestHead, frame: bytes, request: Message | None, faults: list[Fault]
    ) -> None:
        if not (head.api_key == PRODUCE and _expects_no_answer(head, frame)):
            self._places.append(_Place(head, request, faults))
        if self.server.transport is not None:
            self.server.transport.write(frame)

    # -- answers ---------------------------------------------------------------------------

    def _take_answer(self, data: bytes, *, is_frame: bool) -> None:
        """The broker has answered: put it where it belongs."""
        self._answer_bytes += len(data)
        if is_frame:
            correlation_id = correlation_id_of(data)
            for place in self._places:
                if place.answer is None and place.head is not None:
                    if place.head.correlation_id == correlation_id:
                        place.answer = self._edited(place, place.head, data)
                        place.came_s = self._way_out.now_s()
                        self._answer_bytes += len(place.answer) - len(data)
                        return
                    break
        self._places.append(_Place(None, answer=data))  # nothing that was asked for
        self._places[-1].came_s = self._way_out.now_s()

    def _edited(self, place: _Place, head: RequestHead, frame: bytes) -> bytes:
        """The answer as the client is to see it."""
        failure = next((one for one in place.faults if one.kind == "fail"), None)
        if failure is not None and head.api_key not in SPOILED:
            request = place.request
            made = None if request is None else _failed(head, request, failure.error)
            return frame if made is None else made
        if failure is None and not self._gate.state.edits(head.api_key, head.version):
            return frame
        try:
            header, answer = decode_response(
                response_class(head.api_key),
                head.version,
                memoryview(frame)[LENGTH_BYTES:],
                max_elements=MAX_ELEMENTS,
                allow_trailing=True,
            )
            is_changed = self._gate.state.edit(answer)
            if failure is not None:
                is_changed |= spoil(answer, head.version, failure.error)
            if not is_changed:
                return frame
            return encode_response(
                answer, head.version, header.correlation_id, header_tags=header.unknown_tags
            )
        except WireError as error:
            log.warning("forwarding %s v%d unchanged: %s", *_named(head), error)
            return frame

    def _pump_answers(self) -> None:
        """Send answers whose turn has come, until one has to wait."""
        while self._places and self._places[0].answer is not None and self._may_answer():
            place = self._places[0]
            if place.wait is None:
                waits = [one for one in place.faults if one.kind in ("delay", "hold")]
                place.wait = _Wait(self._loop, waits, self._pump_answers)
            if not place.wait.is_over:
                break
            assert place.answer is not None
            pace = self._gate.state.links.pace(self._gate.node, self.sender)
            if not self._way_out.may_pass(pace, len(place.answer), place.came_s):
                break
            self._places.popleft()
            self._answer_bytes -= len(place.answer)
            if any(one.kind == "disconnect" for one in place.faults):
                self.abort()
                return
            self.client.transport.write(place.answer)
        self.balance()
        self._maybe_close()

    def _may_answer(self) -> bool:
        is_there = not self._client_is_gone and not self._is_closed
        return is_there and not self._gate.state.links.is_cut(self._gate.node, self.sender)

    # -- what the injector says ------------------------------------------------------------

    def lifted(self, fault: Fault) -> None:
        """A fault is over: what waits for it goes on."""
        if self._wait is not None:
            self._wait.end(fault)
        for place in list(self._places):
            if place.wait is not None:
                place.wait.end(fault)

    def links_changed(self) -> None:
        """A link was cut or healed."""
        self._pump_requests()
        self._pump_answers()
        self.balance()

    def abort(self) -> None:
        """End both connections at once."""
        if self._is_closed:
            return
        self._is_closed = True
        for wait in (self._wait, *(place.wait for place in self._places)):
            if wait is not None:
                wait.cancel()
        self._way_in.cancel()
        self._way_out.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        for side in (self.client, self.server):
            if side.transport is not None:
                side.transport.abort()
        self._requests.clear()
        self._places.clear()
        self._gate.left(self)

    # -- inside ----------------------------------------------------------------------------

    def balance(self) -> None:
        """Read from each end as long as there is room for what it sends."""
        if self._is_closed:
            return
        has_many = (
            self._request_bytes > WAITING_BYTES_MAX or len(self._requests) > WAITING_FRAMES_MAX
        )
        _read_if(self.client.transport, not (has_many or self.server.is_full))
        has_many = self._answer_bytes > WAITING_BYTES_MAX
        _read_if(self.server.transport, not (has_many or self.client.is_full))

    def _maybe_close(self) -> None:
        """End the other connection, if one is gone and nothing that it sent waits any more."""
        if self._is_closed:
            return
        is_cut, node = self._gate.state.links.is_cut, self._gate.node
        if self._client_is_gone:
            if not (self._requests or self._wait or is_cut(self.sender, node)):
                self._close(self.server)
        elif self._server_is_gone:
            is_waiting = any(one.answer is not None for one in self._places)
            if not (is_waiting or is_cut(node, self.sender)):
                self._close(self.client)

    def _close(self, side: _Side) -> None:
        """Close after what is on its way out."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        for place in self._places:
            if place.wait is not None:
                place.wait.cancel()
        self._way_in.cancel()
        self._way_out.cancel()
        if side.transport is not None:
            side.transport.close()
        self._gate.left(self)


def _read_if(transport: Any, may_read: bool) -> None:
    if transport is None or transport.is_closing():
        return
    if may_read and not transport.is_reading():
        transport.resume_reading()
    elif not may_read and transport.is_reading():
        transport.pause_reading()


def _decoded(frame: bytes) -> Message | None:
    """The request in a frame; None if it is none that we know."""
    try:
        return decode_request(
            memoryview(frame)[LENGTH_BYTES:], max_elements=MAX_ELEMENTS, allow_trailing=True
        )[1]
    except WireError:
        return None


def _failed(head: RequestHead, request: Message, error: int) -> bytes | None:
    """The answer that refuses a request; None if its API has none."""
    answer = error_answer(request, head.version, error)
    return None if answer is None else encode_response(answer, head.version, head.correlation_id)


def _expects_no_answer(head: RequestHead, frame: bytes) -> bool:
    """Whether it is a Produce with acks=0."""
    cls = request_class(PRODUCE)
    if not cls.min_version <= head.version <= cls.max_version:
        return False
    try:
        _, at = read_request_header(frame, LENGTH_BYTES)
    except WireError:
        return False
    return _acks_at(frame, at, head.version) == 0


def _acks_at(frame: bytes, at: int, version: int) -> int:
    """`acks` of a Produce whose body begins there; -1 if it is cut off."""
    if request_class(PRODUCE).is_flexible(version):
        length, shift = 0, 0
        while at < len(frame):
            length |= (frame[at] & 0x7F) << shift
            at, shift, is_last = at + 1, shift + 7, frame[at] < 0x80
            if is_last:
                break
        at += max(0, length - 1)
    elif version >= 3:
        at += 2 + max(0, int.from_bytes(frame[at : at + 2], "big", signed=True))
    if at + 2 > len(frame):
        return -1
    return int.from_bytes(frame[at : at + 2], "big", signed=True)


def _named(head: RequestHead) -> tuple[str, int]:
    return API_NAMES.get(head.api_key, str(head.api_key)), head.version
