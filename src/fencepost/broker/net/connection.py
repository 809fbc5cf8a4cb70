"""One client connection: bytes become requests, answers become bytes, in order and within bounds.

Theory of operation
-------------------
In. Bytes are received into a scratch buffer that all connections of a node share: frames that are
whole in it are dispatched on the spot, synchronously, and only an unfinished tail is copied and
kept by the connection. A frame too big for the scratch buffer gets a buffer of its own that at
most doubles whenever it is full, up to the frame's end; so a length prefix costs nobody memory that
has not been sent.

Out. Every request has a place among the `answers`, in the order of arrival; those whose turn has
come go to the `output`.

Bounds. Dispatching stops, and reading with it, while any of these is reached:

* `MAX_REQUESTS_IN_FLIGHT` requests without an answer,
* `MAX_FRAME_BYTES_IN_FLIGHT` bytes of such requests,
* `OUTPUT_HIGH_WATER_BYTES` of output the client has not taken,
* `BUFFERED_HIGH_WATER_BYTES` that waiting requests have taken up besides their frames
  (`add_buffered`), with the answers that are known and wait behind them.

So what a connection buffers is at most one frame (`socket.request.max.bytes`), these bounds, and
one response over the high water; `memory_budget` bounds the sum over all connections. A request may
have `route.max_elements` array elements, because a byte on the wire can become an object here, and
a client that has sent many requests gives the others a turn every `DISPATCH_S`. Long frames of
several clients are decoded one per turn of the event loop (`runtime.cooperative`). What all
connections do in one turn has bounds, too (`turn`): beyond them a connection receives, reads and
writes what is small, and waits with the rest.

Whatever is not a well-formed request of a served version closes the connection with one log line.
Texts that are not UTF-8 are well-formed, as in Kafka: they have U+FFFD for what cannot be decoded
(`ReplacedText`), and name what is not there. Where such a text would be stored, and could not come
back as it was sent, the request is refused: by its handler, or here if it `stores_text`.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from time import perf_counter
from typing import Any

from fencepost.broker.net.answers import OUTPUT_HIGH_WATER_BYTES, Answers
from fencepost.broker.net.disconnect_log import MIN_FRAME_BYTES, explain_length
from fencepost.broker.net.host import Host
from fencepost.broker.net.memory_budget import OUTGOING_BYTES_MAX
from fencepost.broker.net.output import Output
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import API_VERSIONS_KEY, PRODUCE_KEY
from fencepost.broker.net.remembered_headers import RememberedHeaders
from fencepost.broker.net.turn import COUNTED_S, QUANTUM_BYTES, SMALL_BYTES
from fencepost.broker.net.unsupported_version import unsupported_version_response
from fencepost.broker.net.writer import Buffer, writer_for
from fencepost.runtime.requests.context import ANONYMOUS
from fencepost.wire.errors import DecodeError, ErrorCode, TextDecodeError
from fencepost.wire.message import Message

log = logging.getLogger(__name__)

MAX_REQUESTS_IN_FLIGHT = 64
MAX_FRAME_BYTES_IN_FLIGHT = 32 * 1024 * 1024
BUFFERED_HIGH_WATER_BYTES = 16 * 1024 * 1024
SCRATCH_SIZE_BYTES = 256 * 1024
SMALL_FRAME_BYTES = 64 * 1024
"""A tail up to this size is kept as it is; a longer one moves to a buffer of its own."""
RETAINED_BUFFER_BYTES = 2 * 1024 * 1024
"""A buffer for long frames up to this size is kept for the next one, until the next sweep."""
DISPATCH_S = 0.005
"""How long requests of one client that are here are dispatched before others come first. Longer
than a turn of work in pieces: reading from it stops then, and what has arrived is copied."""
YOUNGEST_FRAME_S = 0.1
"""A frame's rate is not told before it is so old."""

_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">hhi")


class Connection(asyncio.BufferedProtocol):
    """The server's end of one TCP connection."""

    def __init__(self, listener: Host, listener_name: str) -> None:
        self._listener = listener
        self._limit_bytes = listener.max_frame_bytes
        self.routes = listener.routes
        self.listener_name = listener_name
        self.principal = ANONYMOUS
        self.client_host = "?"
        self.client_port = 0
        self.closed = self.accepted = self.is_broker = False
        self.last_activity = self.arrived_s = 0.0
        self._new_context = listener.new_context
        self._transport: Any = None
        self._output: Output
        self._answers: Answers
        self._fd = -1
        # in
        self._turn = listener.turn
        self._scratch = listener.scratch
        self._tail: Buffer = b""  # the start of a frame, when it is short
        self._own: bytearray | None = None  # the buffer of a long frame
        self._own_view = memoryview(b"")
        self._filled = 0
        self._frame_began = 0.0
        self._reading_paused = self._resume_scheduled = False
        self._dispatching = False
        self._stalled = False  # frames that are here already wait for a bound to clear
        self._at_work = False  # a handler works in pieces
        self._waits = False  # too many connections came at once
        self._waits_for_turn = False  # a long frame waits while others are at work
        self._has_turn = False  # and may be decoded now
        self._waits_to_receive = False  # all connections have received much in this turn
        self._headers = RememberedHeaders()

    # -- life ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected; the listener may refuse it."""
        self._transport = transport
        peer = transport.get_extra_info("peername") or ("?", 0)
        self.client_host, self.client_port = str(peer[0]), int(peer[1])
        sock = transport.get_extra_info("socket")
        self._fd = sock.fileno() if sock is not None else -1
        host = self._listener
        writer = writer_for(transport)
        self._output = Output(transport, writer, host.memory_budget, host.turn, host.loop.time)
        self._answers = Answers(self, host, self._output)
        self.last_activity = host.loop.time()
        self.accepted = self._listener.connected(self)
        if not self.accepted:
            self.closed = True
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone: forget what was in flight."""
        self.closed = True
        self._output.drop()
        self._drop_own()
        self._set_tail(b"")
        self._answers.abandon()
        if self.accepted:
            self._listener.disconnected(self)

    def eof_received(self) -> bool:
        """The client will send no more: what is written so far still goes out."""
        self.closed = True
        return False

    def wait(self, wait_s: float) -> None:
        """Take no requests for so long."""
        self._waits = True
        self._listener.loop.call_later(wait_s, self._begin)

    def _begin(self) -> None:
        self._waits = False
        self._maybe_resume_reading()

    def close(self, reason: str) -> None:
        """Disconnect after what is already on its way out, with one log line."""
        if not self.closed:
            self._listener.disconnect_log.note(self, reason)
            self.disconnect()

    def evict(self, reason: str) -> None:
        """Disconnect at once and drop everything, with one log line."""
        if not self.closed:
            self._listener.disconnect_log.note(self, reason)
        self._output.drop()
        self._drop_own()
        self._set_tail(b"")
        self._answers.drop_buffered()
        self.abort()

    def disconnect(self) -> None:
        """Close without a log line; output that is under way is still offered to the client."""
        self._answers.put_usual()
        self._write_out(is_last=True)
        self.closed = True
        self._transport.close()

    def abort(self) -> None:
        """Close at once, dropping all output."""
        self.closed = True
        self._transport.abort()

    def __str__(self) -> str:
        return f"{self.client_host}:{self.client_port}"

    @property
    def idle(self) -> bool:
        """Whether nobody waits for anything here."""
        return not self._answers.waiting and not self._output

    @property
    def incoming_rate(self) -> float | None:
        """Bytes per second of the frame that is arriving; None if none is, or we do not read."""
        arrived_bytes = len(self._tail) if self._own is None else self._filled
        if not arrived_bytes or self._stalled:
            return None
        age_s = self._listener.loop.time() - self._frame_began
        return arrived_bytes / max(age_s, YOUNGEST_FRAME_S)

    @property
    def available_bytes(self) -> int:
        """See `Replier`."""
        return self._listener.memory_budget.available_bytes

    @property
    def at_once_bytes(self) -> int:
        """See `Replier`."""
        return self._turn.at_once_bytes

    def have_read(self, size_bytes: int) -> None:
        """See `Replier`."""
        self._turn.spend_read_bytes(size_bytes)

    def add_outgoing(self, size_bytes: int) -> None:
        """See `Replier`."""
        self._listener.memory_budget.add_outgoing(size_bytes)

    @property
    def unread_fd(self) -> int:
        """The socket's descriptor if nothing is read from it now, or -1."""
        return self._fd if self._reading_paused and not self.closed else -1

    @property
    def buffered_bytes(self) -> int:
        """What requests without an answer, and answers that wait behind them, take."""
        return self._answers.buffered_bytes

    @property
    def output_stalled_since(self) -> float | None:
        """The loop's time at which the client last took output; None if there is none to take."""
        return self._output.stalled_since

    def sweep(self) -> None:
        """Called now and then: give back the buffer of a long frame that is done."""
        if self._own is not None and self._filled == 0:
            self._drop_own()

    # -- in --------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: behind the unfinished frame."""
        most_bytes = SCRATCH_SIZE_BYTES if self._turn.left_bytes > 0 else SMALL_BYTES
        if self._own is not None:
            return self._own_view[self._filled : self._filled + most_bytes]
        tail = self._tail
        if tail:
            self._scratch[: len(tail)] = tail
        return self._scratch[len(tail) : len(tail) + most_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` have arrived: dispatch what is whole, keep the rest."""
        if self.closed:
            return
        self.last_activity = self._listener.loop.time()
        self.arrived_s = perf_counter()
        if self._own is not None:
            view, end = self._own_view, self._filled + nbytes
        else:
            view, end = self._scratch, len(self._tail) + nbytes
        self._take(view, end)
        if nbytes >= SMALL_BYTES:
            self._have_received(nbytes)

    def _have_received(self, size_bytes: int) -> None:
        """Let others go first if all connections have received much in this turn."""
        turn = self._turn
        turn.spend_bytes(size_bytes)
        if turn.left_bytes <= 0 and not self.closed:
            self._waits_to_receive = True
            turn.wait(self)
            self._pause_reading()

    def _pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def _take(self, view: memoryview, end: int) -> None:
        """Dispatch the whole frames in view[:end] and keep what is left."""
        self._dispatching = True
        try:
            done = self._dispatch_frames(view, end)
            self._listener.after_read(id(self))
        finally:
            self._dispatching = False
        if self.closed:
            return
        self._keep(view, done, end)
        if self.closed:  # it was evicted for what it keeps
            return
        self._write_out()
        if self._stalled or self._blocked():
            self._pause_reading()
            self._maybe_resume_reading()

    def _dispatch_frames(self, view: memoryview, end: int) -> int:
        """Dispatch frames until one is not whole or a bound is met; where that is."""
        start = 0
        self._stalled = False
        began = now = perf_counter()
        turn_ends = began + max(0.0, min(DISPATCH_S, self._turn.left_s))
        while end - start >= 4:
            if self._blocked() or now > turn_ends:
                self._stalled = True
                break
            done, start = start, self._take_run(view, start, end)
            if self.closed:
                return end
            if start > done:
                now = perf_counter()
                continue
            (size_bytes,) = _LENGTH.unpack_from(view, start)
            if size_bytes < MIN_FRAME_BYTES or size_bytes > self._limit_bytes:
                first_bytes = bytes(view[start : min(end, start + 16)])
                self.close(explain_length(size_bytes, self._limit_bytes, first_bytes))
                return end
            frame_end = start + 4 + size_bytes
            if frame_end > end:
                break
            if size_bytes > SMALL_FRAME_BYTES and self._must_wait_its_turn(view, start + 4):
                self._stalled = True
                break
            self._dispatch(view[start + 4 : frame_end])
            if self.closed:
                return end
            start, now = frame_end, perf_counter()
        if now - began > COUNTED_S:
            self._turn.spend_s(now - began)
        return start

    def _take_run(self, view: memoryview, start: int, end: int) -> int:
        """Take usual Produce requests, as many as stand there together; where they end."""
        runs, head = self._listener.produce_runs, self._headers.produce_head
        if runs is None or not head:
            return start
        answers = self._answers
        room = MAX_REQUESTS_IN_FLIGHT - len(answers.waiting)
        try:
            start = runs.take(self, answers.waiting, view, start, end, head, room)
        except Exception:
            log.exception("Produce from %s failed", self)
            self.close("Produce failed")
            return end
        answers.frame_bytes += runs.latest_bytes
        return start

    def _must_wait_its_turn(self, view: memoryview, start: int) -> bool:
        """Whether a long frame is to be decoded later, because others are at work already.

        Records are not decoded, so Produce is no more work than the number of its partitions.
        """
        if self._has_turn or not self._listener.work.is_busy:
            self._has_turn = False
            return False
        if _HEAD.unpack_from(view, start)[0] == PRODUCE_KEY:
            return False
        self._waits_for_turn = True
        self._listener.work.later(self._turn_came)
        return True

    def _turn_came(self) -> None:
        """The long frame that is here may be decoded now."""
        self._waits_for_turn = False
        self._has_turn = True
        self._resume_reading()

    def _keep(self, view: memoryview, start: int, end: int) -> None:
        """Keep view[start:end], the start of a frame (or frames that have to wait)."""
        left_bytes = end - start
        if start or (self._own is None and not self._tail):
            self._frame_began = self.last_activity
        if self._own is not None:
            self._keep_in_own(start, end)
        elif left_bytes <= SMALL_FRAME_BYTES or self._stalled:
            if left_bytes or self._tail:
                self._set_tail(bytes(view[start:end]))
        else:
            self._set_tail(b"")
            self._grow(view[start:end])

    def _set_tail(self, tail: Buffer) -> None:
        """Keep this much of a short frame."""
        more_bytes = len(tail) - len(self._tail)
        self._tail = tail
        if more_bytes:
            self._listener.memory_budget.add_incoming(more_bytes)

    def _keep_in_own(self, start: int, end: int) -> None:
        left_bytes = end - start
        if start and left_bytes:
            self._own_view[:left_bytes] = self._own_view[start:end]
        self._filled = left_bytes
        if not left_bytes and len(self._own_view) > RETAINED_BUFFER_BYTES:
            self._drop_own()
        elif start and left_bytes < SMALL_FRAME_BYTES and not self._long_frame_ahead():
            self._set_tail(bytes(self._own_view[:left_bytes]))
            self._drop_own()
        elif left_bytes == len(self._own_view):
            self._grow(self._own_view)

    def _long_frame_ahead(self) -> bool:
        """Whether the buffer holds the start of another long frame, or nothing (more may come)."""
        if self._filled < 4:
            return True
        (size_bytes,) = _LENGTH.unpack_from(self._own_view, 0)
        return bool(size_bytes > SMALL_FRAME_BYTES)

    def _grow(self, content: memoryview) -> None:
        """Move to a buffer with room for as much again as has arrived, or for the frame."""
        have_bytes = len(content)
        (size_bytes,) = _LENGTH.unpack_from(content, 0)
        frame_bytes = 4 + max(0, min(size_bytes, self._limit_bytes))
        if frame_bytes <= have_bytes:  # whole frames that wait: reading is paused anyway
            frame_bytes = have_bytes + SMALL_FRAME_BYTES
        own = bytearray(min(frame_bytes, 2 * have_bytes))
        view = memoryview(own)
        view[:have_bytes] = content
        more_bytes = len(own) - len(self._own_view)
        self._own, self._own_view, self._filled = own, view, have_bytes
        self._listener.memory_budget.add_incoming(more_bytes)

    def _drop_own(self) -> None:
        self._listener.memory_budget.add_incoming(-len(self._own_view))
        self._own = None
        self._own_view = memoryview(b"")
        self._filled = 0

    def _dispatch(self, frame: memoryview) -> None:
        """Hand one frame to its handler."""
        api_key, version, correlation_id = _HEAD.unpack_from(frame, 0)
        try:
            route = self.routes[api_key]
        except KeyError:
            self.close(f"api key {api_key} (version {version}) is not served here")
            return
        except OSError as error:  # a file descriptor is missing to load its module with
            self.close(f"api key {api_key} (version {version}) cannot be served now: {error}")
            return
        context = self._new_context(self, route, version, correlation_id, None, len(frame))
        if not route.min_version <= version <= route.max_version:
            self._refuse_version(context)
            return
        is_refused = False
        try:
            context.client_id, body_start = self._headers.read(frame, route, version)
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
            self.close(f"malformed {route.name} v{version}: {error}")
            return
        self._answers.add(context)
        if is_refused:
            context.fail(ErrorCode.INVALID_REQUEST)
            return
        if api_key != PRODUCE_KEY:
            self._listener.before_others()
        try:
            answer = route.handler(context, request)
            if isinstance(answer, Message):
                context.reply(answer)
            elif answer is not None:
                self._at_work = not self._answers.work_on(context, answer, self._work_done)
        except Exception:
            log.exception("%s v%d from %s failed", route.name, version, self)
            context.fail()

    def _take_bytes(self, context: PendingRequest, frame: memoryview, body_start: int) -> bool:
        """Whether a request was taken before it is decoded."""
        answers, route = self._answers, context.route
        take_bytes = route.take_bytes
        assert take_bytes is not None, "or nobody asks"
        answers.add(context)
        if route.api_key != PRODUCE_KEY:
            self._listener.before_others()
        try:
            taken = take_bytes(context, frame, body_start)
        except Exception:
            log.exception("%s v%d from %s failed", route.name, context.api_version, self)
            context.fail()
            return True
        if taken is False:
            answers.take_back()
            return False
        if taken is not True:
            answers.put_next(context, taken)
        return True

    def _work_done(self) -> None:
        """A handler that worked in pieces is through: on to what came behind its request."""
        self._at_work = False
        self.flush()

    def _refuse_version(self, context: PendingRequest) -> None:
        """Disconnect, except for ApiVersions, whose v0 answer every client can read (KIP-511)."""
        route, version = context.route, context.api_version
        if route.api_key != API_VERSIONS_KEY:
            self.close(
                f"{route.name} v{version} is not served here, "
                f"v{route.min_version} to v{route.max_version} are"
            )
            return
        context.api_version = 0
        self._answers.add(context)
        context.reply(unsupported_version_response(route))

    # -- bounds ----------------------------------------------------------------------------

    def _blocked(self) -> bool:
        answers, output = self._answers, self._output
        return (
            output.is_paused
            or self._at_work
            or self._waits
            or self._waits_for_turn
            or self._waits_to_receive
            or len(answers.waiting) >= MAX_REQUESTS_IN_FLIGHT
            or answers.frame_bytes > MAX_FRAME_BYTES_IN_FLIGHT
            or answers.buffered_bytes > BUFFERED_HIGH_WATER_BYTES
            or output.size_bytes > OUTPUT_HIGH_WATER_BYTES
        )

    def _maybe_resume_reading(self) -> None:
        if self._reading_paused and not self._resume_scheduled and not self._blocked():
            self._resume_scheduled = True
            self._listener.loop.call_soon(self._resume_reading)

    def _resume_reading(self) -> None:
        """First the frames that are here already, then, if no bound is met, new ones."""
        self._resume_scheduled = False
        if self.closed or not self._reading_paused or self._blocked():
            return
        if self._own is not None:
            self._take(self._own_view, self._filled)
        elif self._tail:
            tail = self._tail
            self._set_tail(b"")
            self._take(memoryview(bytearray(tail)), len(tail))
        if not self.closed and not self._resume_scheduled and not self._blocked():
            self._reading_paused = False
            self._transport.resume_reading()

    # -- out -------------------------------------------------------------------------------

    def is_next(self, context: PendingRequest) -> bool:
        """See `Replier`."""
        return not self.closed and self._answers.is_next(context)

    def settled(self, context: PendingRequest) -> None:
        """An answer is known: send it, and those behind it that are known, if it is its turn."""
        answers = self._answers
        waiting = answers.waiting
        if self.closed or not waiting:
            return
        if context is not waiting[0]:
            context.add_buffered(context.answer_bytes)
        if not waiting[0].answered:
            return
        answers.drain()
        if not self._dispatching:
            self._listener.flush_soon(self)

    def answers_known(self) -> None:
        """Answers to usual requests are known: they leave when it is their turn."""
        if self._dispatching:
            self._answers.drain()
        elif not self.closed:
            self._listener.flush_soon(self)

    def stand_in(self, request: Any) -> PendingRequest | None:
        """An ordinary context in the place of a usual request; None if the client is gone."""
        if self.closed:
            return None
        version = request.version
        return self._answers.stand_in(
            request,
            lambda: self._listener.context_again(
                self,
                self.routes[PRODUCE_KEY],
                version,
                request.correlation_id,
                self._headers.client_id(PRODUCE_KEY, version),
                request.frame_size_bytes,
            ),
        )

    def add_buffered(self, size_bytes: int) -> None:
        """A request that waits takes so much more (or less) memory; may cost the connection."""
        if not self.closed:
            self._answers.add_buffered(size_bytes)

    def flush(self) -> None:
        """Give the output to the socket, as far as it takes it; that may resume the reading."""
        self._write_out()
        self._maybe_resume_reading()

    def flush_answered(self) -> None:
        """The same with answers that have become known in this turn of the event loop."""
        self._answers.drain()
        self.flush()

    def go_on(self) -> int:
        """See `turn.Waiting`."""
        if self.closed:
            return 0
        self.flush()
        if not self._waits_to_receive:
            return 0
        self._waits_to_receive = False
        self._resume_reading()
        return SCRATCH_SIZE_BYTES

    def _write_out(self, is_last: bool = False) -> None:
        answers, output, turn = self._answers, self._output, self._turn
        left_bytes = OUTGOING_BYTES_MAX if is_last else QUANTUM_BYTES
        while output.size_bytes:
            if output.is_large and not is_last and (left_bytes <= 0 or turn.left_bytes <= 0):
                turn.wait(self)
                break
            before_bytes = output.size_bytes
            if not output.write(left_bytes):
                break
            left_bytes -= before_bytes - output.size_bytes
            if answers.waiting:
                answers.drain()

    def pause_writing(self) -> None:
        """The transport buffers enough: wait until the socket has taken it."""
        self._output.is_paused = True

    def resume_writing(self) -> None:
        """The transport's buffer is empty again."""
        self._output.is_paused = False
        self.flush_answered()
