"""One client connection: bytes become requests, answers become bytes, in order and within bounds.

Theory of operation
-------------------
In. Frames that are whole are dispatched on the spot, synchronously (`dispatch`); what is left is
kept (`received`).

Out. Every request has a place among the `answers`, in the order of arrival; those whose turn has
come go to the `output`.

Session. A session (`machines.session`) says how large a frame may be, which requests are let
through, and who the client is. On a PLAINTEXT listener it is READY from the start, is asked nothing
further, and the client is ANONYMOUS. Where there is TLS, `tls_transport` is between this and the
socket, and says when the handshake is over. On a listener with SASL there is a `login`.

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
writes what is small, and waits with the rest. No requests are taken from a client that is throttled
(KIP-219), from when its response says so until the time is over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Any

from fencepost.broker.net.answers import OUTPUT_HIGH_WATER_BYTES, Answers
from fencepost.broker.net.disconnect_log import (
    MIN_FRAME_BYTES,
    explain_length,
    explain_plain,
    explain_tls,
)
from fencepost.broker.net.dispatch import MAX_REQUESTS_IN_FLIGHT, Dispatcher
from fencepost.broker.net.host import Host
from fencepost.broker.net.listener_security import ListenerSecurity
from fencepost.broker.net.memory_budget import OUTGOING_BYTES_MAX
from fencepost.broker.net.output import Output
from fencepost.broker.net.pending_request import Buffer, PendingRequest
from fencepost.broker.net.received import SCRATCH_SIZE_BYTES, SMALL_FRAME_BYTES, Received
from fencepost.broker.net.registry import Route
from fencepost.broker.net.run_taker import RunSlot
from fencepost.broker.net.turn import COUNTED_S, SMALL_BYTES, Share
from fencepost.broker.net.writer import writer_for
from fencepost.machines.session import (
    ANONYMOUS,
    ClientConnected,
    ClientDisconnected,
    DelayElapsed,
    Disconnect,
    Principal,
    Proceed,
    Refuse,
    RequestArrived,
    Session,
    SessionReaction,
    SessionState,
    TlsEstablished,
    TlsFailed,
)
from fencepost.machines.session.machine import SASL_AUTHENTICATE_KEY
from fencepost.runtime.requests.context import QUANTUM_BYTES
from fencepost.wire.message import Message

if TYPE_CHECKING:
    from fencepost.broker.net.login import Login

MAX_FRAME_BYTES_IN_FLIGHT = 32 * 1024 * 1024
BUFFERED_HIGH_WATER_BYTES = 16 * 1024 * 1024
DISPATCH_S = 0.005
"""How long requests of one client that are here are dispatched before others come first. Longer
than a turn of work in pieces: reading from it stops then, and what has arrived is copied."""

_LENGTH = Struct(">i")


class Connection(asyncio.BufferedProtocol):
    """The server's end of one TCP connection."""

    def __init__(self, listener: Host, security: ListenerSecurity) -> None:
        self._listener = listener
        self.quotas = listener.quotas
        self.routes = listener.routes
        self.listener_name = security.name
        self.security_protocol = security.rules.protocol
        self.client_host = "?"
        self.client_port = 0
        self.closed = self.accepted = self.is_broker = False
        self.last_activity = self.arrived_s = 0.0
        self._session = session = Session(security.rules)
        self.login: Login | None = None
        if security.rules.protocol.has_sasl:
            # What a node without SASL never needs, its start can do without.
            from fencepost.broker.net.login import Login

            self.login = Login(self, security, session, listener.logins)
        self._transport: Any = None
        self._output: Output
        self._answers: Answers
        self._dispatcher: Dispatcher
        self._fd = -1
        # in
        self._turn = listener.turn
        self._share = Share(self._turn)
        self._received = Received(listener.scratch, listener.memory_budget)
        self._reading_paused = self._resume_scheduled = False
        self._dispatching = False
        self._stalled = False  # frames that are here already wait for a bound to clear
        self._waits_until = 0.0  # the loop's time until which no requests are taken
        self._wait: asyncio.TimerHandle | None = None
        self._failure_delay: asyncio.TimerHandle | None = None
        self._waits_for_turn = False  # a long frame waits while others are at work
        self._has_turn = False  # and may be decoded now
        self._waits_to_receive = False  # enough has been received in this turn

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
        self._dispatcher = Dispatcher(self, host, self._answers, self._session, self._now_ms)
        self._session.step(ClientConnected())
        self.last_activity = host.loop.time()
        self.accepted = self._listener.connected(self)
        if not self.accepted:
            self.closed = True
            self._transport.abort()
        elif self.login is not None:
            self.login.begin_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone: forget what was in flight."""
        self.closed = True
        self._session.step(ClientDisconnected())
        for timer in (self._wait, self._failure_delay):
            if timer is not None:
                timer.cancel()
        if self.login is not None:
            self.login.end_deadline()
        self._output.drop()
        self._received.drop()
        self._answers.abandon()
        if self.accepted:
            self._listener.disconnected(self)

    def eof_received(self) -> bool:
        """The client will send no more: what is written so far still goes out."""
        self.closed = True
        return False

    def wait(self, wait_s: float) -> None:
        """Take no requests for so many seconds, or for longer if it waits already."""
        loop = self._listener.loop
        until = loop.time() + wait_s
        if until <= self._waits_until:
            return
        if self._wait is not None:
            self._wait.cancel()
        self._waits_until = until
        self._wait = loop.call_later(wait_s, self._end_wait)

    def _end_wait(self) -> None:
        self._wait = None
        self._maybe_resume_reading()

    def mute(self, throttle_time_ms: int) -> None:
        """Take no further requests for so long: the client has its response (KIP-219)."""
        self.wait(throttle_time_ms / 1000)

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
        self._received.drop()
        self._answers.drop_buffered()
        self.abort()

    def disconnect(self) -> None:
        """Close without a log line; output that is under way is still offered to the client."""
        self._answers.put_run()
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
        """Whether no request waits for its answer, and no answer for the client."""
        return not self._answers.waiting and not self._output

    @property
    def session(self) -> Session:
        """See `Replier`."""
        return self._session

    @property
    def principal(self) -> Principal:
        """Who the client is."""
        return self._session.principal

    @property
    def waiting(self) -> deque[Any]:
        """See `RunConnection`."""
        return self._answers.waiting

    @property
    def frame_bytes_max(self) -> int:
        """See `RunConnection`."""
        return self._session.frame_bytes_max

    @property
    def incoming_rate(self) -> float | None:
        """Bytes per second of the frame that is arriving; None if none is, or we do not read."""
        return None if self._stalled else self._received.rate(self._listener.loop.time())

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
        """Called now and then: give back memory that is not in use."""
        self._received.sweep()

    def _now_ms(self) -> int:
        return int(self._listener.loop.time() * 1000)

    # -- the session -----------------------------------------------------------------------

    @property
    def waits_s(self) -> float:
        """See `TlsConnection`."""
        return self._waits_until - self._listener.loop.time()

    def tls_established(self, principal: Principal) -> None:
        """See `TlsConnection`."""
        self.last_activity = self._listener.loop.time()
        self._session.step(TlsEstablished(principal))
        if principal is not ANONYMOUS:
            logins = self._listener.logins
            logins.tell(str(principal), self.client_host, self.listener_name, "TLS")
            logins.counts.succeeded[self.listener_name, "TLS"] += 1

    def tls_failed(self, reason: str, is_plain: bool = False) -> None:
        """See `TlsConnection`."""
        if self.closed:
            return
        is_handshake = self._session.state is SessionState.TLS
        self._session.step(TlsFailed(reason))
        log = self._listener.disconnect_log
        if is_plain:
            log.note_once(self, self.client_host, explain_plain(self.listener_name))
        else:
            log.note(self, reason)
        if is_handshake and not is_plain:
            logins = self._listener.logins
            logins.tell(None, self.client_host, self.listener_name, "TLS", reason)
            logins.counts.failed[self.listener_name, "TLS"] += 1
        self.disconnect()

    def admit(self, context: PendingRequest) -> bool:
        """See `DispatchingConnection`."""
        was_ready = self._session.state is SessionState.READY
        reaction = self._session.step(RequestArrived(context.route.api_key, self._now_ms()))
        if isinstance(reaction, Proceed):
            return True
        self._answers.add(context)
        if self.login is None:
            self.turn_away(context, reaction)
        else:
            self.login.refuse(context, reaction, was_ready=was_ready)
        return False

    def turn_away(
        self,
        context: PendingRequest,
        reaction: SessionReaction,
        answer: Message | None = None,
        reason: str | None = None,
    ) -> None:
        """See `LoginConnection`. After a delay, in which nothing is read, so that a client cannot
        try passwords fast."""
        delay_ms = 0
        if isinstance(reaction, Refuse | Disconnect):
            delay_ms = reaction.delay_ms or 0
        finish = partial(self._finish_turning_away, context, reaction, answer, reason)
        if delay_ms:
            self._failure_delay = self._listener.loop.call_later(delay_ms / 1000, finish)
        else:
            finish()

    def _finish_turning_away(
        self,
        context: PendingRequest,
        reaction: SessionReaction,
        answer: Message | None,
        reason: str | None,
    ) -> None:
        if self.closed:
            return
        if isinstance(reaction, Refuse):
            if answer is None:
                context.fail(reaction.error)
            else:
                context.reply(answer)
            if reaction.delay_ms is None:
                return
            self._answers.drain()
            reaction = self._session.step(DelayElapsed())
        if isinstance(reaction, Disconnect):
            self.close(reason or reaction.reason)

    # -- in --------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: behind the unfinished frame."""
        return self._received.room(min(SCRATCH_SIZE_BYTES, self._share.receivable_bytes))

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` have arrived: dispatch what is whole, keep the rest."""
        if self.closed:
            return
        self.last_activity = self._listener.loop.time()
        self.arrived_s = perf_counter()
        view, end = self._received.add(nbytes)
        self._take(view, end)
        if nbytes >= SMALL_BYTES:
            self._have_received(nbytes)

    def _have_received(self, size_bytes: int) -> None:
        """Let others go first if this connection, or all, have received much in this turn."""
        if self._share.spend(size_bytes) and not self.closed:
            self._waits_to_receive = True
            self._turn.wait(self)
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
        self._received.keep(
            view,
            done,
            end,
            self.last_activity,
            is_stalled=self._stalled,
            frame_bytes_max=self._session.frame_bytes_max,
        )
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
        dispatcher, session = self._dispatcher, self._session
        began = now = perf_counter()
        turn_ends = began + max(0.0, min(DISPATCH_S, self._turn.left_s))
        while end - start >= 4:
            if self._blocked() or now > turn_ends:
                self._stalled = True
                break
            done, start = start, dispatcher.take_run(view, start, end)
            if self.closed:
                return end
            if start > done:
                now = perf_counter()
                continue
            (size_bytes,) = _LENGTH.unpack_from(view, start)
            least_bytes = 0 if session.reads_tokens else MIN_FRAME_BYTES
            if size_bytes < least_bytes or size_bytes > session.frame_bytes_max:
                self._close_for_length(size_bytes, bytes(view[start : min(end, start + 16)]))
                return end
            frame_end = start + 4 + size_bytes
            if frame_end > end:
                break
            if size_bytes > SMALL_FRAME_BYTES and self._must_wait_its_turn(view, start + 4):
                self._stalled = True
                break
            if session.reads_tokens:
                self._take_token(bytes(view[start + 4 : frame_end]))
            else:
                dispatcher.dispatch(view[start + 4 : frame_end])
            if self.closed:
                return end
            start, now = frame_end, perf_counter()
        if now - began > COUNTED_S:
            self._turn.spend_s(now - began)
        return start

    def _close_for_length(self, size_bytes: int, first_bytes: bytes) -> None:
        """Disconnect a client that sends what is no request."""
        session = self._session
        if hint := explain_tls(first_bytes, self.listener_name):
            self._listener.disconnect_log.note_once(self, self.client_host, hint)
            self.disconnect()
            return
        key = "sasl.server.max.receive.size"
        if session.state is SessionState.READY:
            key = "socket.request.max.bytes"
        self.close(explain_length(size_bytes, session.frame_bytes_max, first_bytes, key))

    def _take_token(self, token: bytes) -> None:
        """A frame is a token of the login, without a header."""
        assert self.login is not None, "a session without a login reads no tokens"
        route = self.routes[SASL_AUTHENTICATE_KEY]
        context = self._listener.new_context(self, route, 0, 0, None, len(token))
        self._answers.add(context)
        self.login.take_token(context, token)

    def _must_wait_its_turn(self, view: memoryview, start: int) -> bool:
        """Whether a long frame is to be decoded later, because others are at work already."""
        if self._has_turn or not self._listener.work.is_busy:
            self._has_turn = False
            return False
        if self._session.reads_tokens or self._dispatcher.is_opaque(view, start):
            return False
        self._waits_for_turn = True
        self._listener.work.later(self._turn_came)
        return True

    def _turn_came(self) -> None:
        """The long frame that is here may be decoded now."""
        self._waits_for_turn = False
        self._has_turn = True
        self._resume_reading()

    # -- bounds ----------------------------------------------------------------------------

    def _blocked(self) -> bool:
        answers, output = self._answers, self._output
        return (
            output.is_paused
            or self._dispatcher.at_work
            or self._wait is not None
            or self._failure_delay is not None
            or (self.login is not None and self.login.at_work)
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
        kept = self._received.take_kept()
        if kept is not None:
            self._take(*kept)
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
        """Answers to requests of a run are known: they leave when it is their turn."""
        if self._dispatching:
            self._answers.drain()
        elif not self.closed:
            self._listener.flush_soon(self)

    def may_answer(self) -> bool:
        """See `RunConnection`."""
        return self._dispatcher.may_answer()

    def put_answer(self, parts: list[Buffer]) -> bool:
        """See `RunConnection`."""
        self._output.put(parts)
        return self._answers.is_free

    def queue(
        self, api_key: int, version: int, correlation_id: int, frame_size_bytes: int
    ) -> PendingRequest:
        """See `RunConnection`."""
        return self._dispatcher.queue(api_key, version, correlation_id, frame_size_bytes)

    def replace_slot(self, slot: RunSlot, route: Route) -> PendingRequest | None:
        """An ordinary context in the place of a taker's slot; None if the client is gone."""
        return None if self.closed else self._dispatcher.replace_slot(slot, route)

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
        reserved_bytes = self._share.reserve()
        self._resume_reading()
        return reserved_bytes

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
