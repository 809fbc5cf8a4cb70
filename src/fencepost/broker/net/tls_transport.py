"""TLS between a connection and its socket.

To the connection this is its transport, to the socket's transport it is the protocol. What arrives
is decrypted into the buffer that the connection receives in; what is written becomes TLS records
that leave in one write, past the socket's transport if there is much. OpenSSL works on memory, so
nothing here waits.

Bounds. Nothing is read while the connection does not read, so what has arrived and is not decrypted
is one piece of `RECORDS_BYTES` at most, and counts as incoming in the memory budget. What is
encrypted of large output and not sent is little more than `TLS_VECTOR_BYTES`, and counts as
outgoing. Records that have no data for the connection cost work all the same: a client that sends
more than `SILENT_BYTES_MAX` of them, or does not take what TLS itself answers, is disconnected.
`handshakes` bounds those that are in progress.

A client of TLS 1.2 that begins another handshake on its connection is disconnected at once, as in
Kafka. In that version there is nothing else that OpenSSL answers by itself once a connection is
established: it either refuses the handshake (`OP_NO_RENEGOTIATION`) or goes along with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from fencepost.broker.net.handshakes import Handshakes
from fencepost.broker.net.memory_budget import MemoryBudget
from fencepost.broker.net.writer import TLS_VECTOR_BYTES, Buffer, write_past
from fencepost.broker.security.principal_mapping import NoPrincipalError
from fencepost.broker.security.server_tls import ServerTls
from fencepost.machines.session import Principal

RECORDS_BYTES: Final = 64 * 1024
"""What is received and decrypted at a time."""
SILENT_BYTES_MAX: Final = 128 * 1024
REPLIES_BYTES_MAX: Final = 2 * TLS_VECTOR_BYTES
"""More than a connection gives a transport that does not get rid of it."""

_HANDSHAKE_RECORD: Final = 0x16
_NEWEST: Final = "TLSv1.3"
"""The version in which no handshake can follow another."""


class TlsConnection(Protocol):
    """What is above: a connection that TLS makes known to its session."""

    closed: bool

    @property
    def waits_s(self) -> float:
        """How long it takes no requests from now on."""
        ...

    def connection_made(self, transport: Any) -> None:
        """See `asyncio.Protocol`; likewise the others."""
        ...

    def connection_lost(self, exc: Exception | None) -> None: ...
    def eof_received(self) -> bool: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...

    def tls_established(self, principal: Principal) -> None:
        """The handshake is complete."""
        ...

    def tls_failed(self, reason: str, is_plain: bool = False) -> None:
        """It failed; `is_plain`: the client does not speak TLS."""
        ...


class TlsTransports:
    """What the transports of one `Listener` have in common."""

    def __init__(self, loop: asyncio.AbstractEventLoop, budget: MemoryBudget) -> None:
        self.handshakes = Handshakes(loop)
        """Those that are in progress."""
        self._loop = loop
        self._budget = budget
        self._scratch = memoryview(bytearray(RECORDS_BYTES))

    def below(self, connection: TlsConnection, tls: ServerTls) -> TlsTransport:
        """A transport for a new connection."""
        return TlsTransport(
            connection, tls, self.handshakes, self._budget, self._scratch, self._loop
        )


class TlsTransport(asyncio.BufferedProtocol):
    """See the module."""

    def __init__(
        self,
        connection: TlsConnection,
        tls: ServerTls,
        handshakes: Handshakes,
        budget: MemoryBudget,
        scratch: memoryview,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """What is received goes through the `scratch`, which all connections share."""
        self._connection = connection
        self._tls = tls
        self._handshakes = handshakes
        self._budget = budget
        self._scratch = scratch
        self._loop = loop
        self._transport: Any = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object: ssl.SSLObject | None = None
        self._is_established = False
        self._is_over = False
        self._reading_paused = False
        self._waits = False  # bytes of the handshake wait for their turn
        self._silent_bytes = 0
        self._counted_bytes = 0
        self._writing_paused = False
        self._unsent_bytes = 0  # of those encrypted, as counted

    # -- below: the protocol of the socket's transport -----------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected; the connection may refuse it."""
        self._transport = transport
        self._connection.connection_made(self)
        if not self._connection.closed:
            self._handshakes.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._end()
        self._count_unsent(0)
        self._connection.connection_lost(exc)

    def eof_received(self) -> bool:
        """The client will send no more."""
        if not self._is_established and not self._is_over and self._object is not None:
            self._fail("the client has left during the TLS handshake")
        return self._connection.eof_received()

    def pause_writing(self) -> None:
        """The transport buffers enough."""
        self._writing_paused = True
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """The transport's buffer is empty again."""
        self._writing_paused = False
        self._count_unsent(0)
        self._connection.resume_writing()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where records are received."""
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` have arrived."""
        if self._is_over:
            return
        if self._object is None and not self._begin():
            return
        self._incoming.write(self._scratch[:nbytes])
        self._silent_bytes += nbytes
        if self._is_established:
            self._feed()
        elif self._silent_bytes > SILENT_BYTES_MAX:
            self._fail(f"more than {SILENT_BYTES_MAX} bytes of a TLS handshake")
        elif not self._waits:
            self._waits = True
            self._handshakes.later(self)

    # -- the handshake -------------------------------------------------------------------------

    def _begin(self) -> bool:
        """The first bytes: whether they are of TLS."""
        if self._scratch[0] != _HANDSHAKE_RECORD:
            self._end()
            self._connection.tls_failed("it is no TLS handshake", is_plain=True)
            return False
        self._object = self._tls.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._handshakes.began(self)
        return not self._is_over

    def shake_hands(self) -> None:
        """See `Handshake`."""
        self._waits = False
        if self._is_over or self._object is None:
            return
        wait_s = self._connection.waits_s
        if wait_s > 0:  # it is one of too many new connections, which wait for their turn
            self._waits = True
            self._transport.pause_reading()
            self._loop.call_later(wait_s, self._handshakes.later, self)
            return
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            self._transport.resume_reading()
        except (ssl.SSLError, ValueError) as error:
            self._flush()  # the alert that says why
            self._fail(f"the TLS handshake failed: {_in_words(error)}")
        else:
            self._flush()
            self._establish(self._object)

    def _establish(self, made: ssl.SSLObject) -> None:
        self._is_established = True
        self._handshakes.ended(self)
        try:
            principal = self._tls.principal_of(made.getpeercert(binary_form=True))
        except NoPrincipalError as error:
            self._fail(f"the client's certificate stands for no principal: {error}")
            return
        self._connection.tls_established(principal)
        if not self._reading_paused:
            self._transport.resume_reading()
            self._feed()

    def give_up(self, reason: str) -> None:
        """See `Handshake`."""
        if not self._is_over:
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        self._end()
        self._connection.tls_failed(reason)

    # -- data ----------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Give the connection what has arrived, as long as it reads."""
        is_drained = False
        while not (is_drained or self._is_over or self._reading_paused):
            room = self._connection.get_buffer(-1)
            filled, is_drained = self._decrypt(room)
            if filled:
                self._silent_bytes = 0
                self._connection.buffer_updated(filled)
        if self._is_over:
            return
        has_answer = self._flush()  # what TLS itself answers
        assert self._object is not None
        if has_answer and self._object.version() != _NEWEST:
            self._fail("the client begins another TLS handshake on the connection")
        elif self._silent_bytes > SILENT_BYTES_MAX:
            self._fail(f"more than {SILENT_BYTES_MAX} bytes of TLS records without data")
        elif self._transport.get_write_buffer_size() > REPLIES_BYTES_MAX:
            self._fail("the client does not take what TLS answers")
        else:
            self._count(0 if is_drained else self._incoming.pending)

    def _decrypt(self, room: memoryview) -> tuple[int, bool]:
        """Fill the room; how much, and whether nothing more can be decrypted."""
        made = self._object
        assert made is not None
        filled = 0
        try:
            while filled < len(room):
                size_bytes: Any = made.read(len(room) - filled, room[filled:])
                if not size_bytes:
                    self._loop.call_soon(self._closed_by_client)
                    return filled, True
                filled += size_bytes
                # OpenSSL takes one record at a time, so that it has none of its own: what it would
                # raise then costs more than a small record.
                if not self._incoming.pending and not made.pending():
                    return filled, True
        except ssl.SSLWantReadError:
            return filled, True
        except ssl.SSLError as error:
            self._flush()
            self._fail(f"TLS failed: {_in_words(error)}")
            return 0, True
        return filled, False

    def _closed_by_client(self) -> None:
        """It has said that it sends no more."""
        if not self._is_over:
            self._connection.eof_received()
            self.close()

    def _flush(self) -> bool:
        """Write what TLS has to say; whether it had something."""
        if not self._outgoing.pending:
            return False
        self._transport.write(self._outgoing.read())
        return True

    def _count(self, kept_bytes: int) -> None:
        """So much has arrived and is not decrypted."""
        more_bytes = kept_bytes - self._counted_bytes
        self._counted_bytes = kept_bytes
        if more_bytes:
            self._budget.add_incoming(more_bytes)

    def _end(self) -> None:
        self._is_over = True
        self._handshakes.ended(self)
        self._count(0)

    # -- above: the connection's transport -----------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See `asyncio.BaseTransport`; likewise the others."""
        return self if name == "tls" else self._transport.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Of the socket's transport."""
        self._transport.set_write_buffer_limits(high=high, low=low)

    def get_write_buffer_size(self) -> int:
        """Of the socket's transport."""
        size_bytes: int = self._transport.get_write_buffer_size()
        return size_bytes

    def is_closing(self) -> bool:
        """Whether nothing can be written any more."""
        return self._is_over or bool(self._transport.is_closing())

    def pause_reading(self) -> None:
        """Decrypt nothing, and receive nothing."""
        self._reading_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on, with what has arrived already first: in the turn in which the connection goes on
        and has its share (`turn`)."""
        self._reading_paused = False
        if self._is_over or not self._is_established:
            return
        self._feed()
        if not (self._is_over or self._reading_paused):
            self._transport.resume_reading()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt it all, and write the records in one go."""
        if self._is_over or self._object is None or not len(data):
            return
        self._object.write(data)
        self._transport.write(self._outgoing.read())

    def write_chunks(self, chunks: Iterable[Buffer]) -> None:
        """Encrypt each, and write the records of all in one go.

        OSError if the connection is broken.
        """
        if self._is_over or self._object is None:
            return
        records: list[Buffer] = []
        for chunk in chunks:  # OpenSSL's buffer stays as large as the most that was in it
            self._object.write(chunk)
            records.append(self._outgoing.read())
        transport = self._transport
        sent_bytes = write_past(transport, transport.get_extra_info("socket").fileno(), records)
        for one in records:
            if sent_bytes < len(one):
                transport.write(memoryview(one)[sent_bytes:])
            sent_bytes = max(0, sent_bytes - len(one))
        if self._writing_paused:
            self._count_unsent(transport.get_write_buffer_size())

    def _count_unsent(self, size_bytes: int) -> None:
        """So many records wait for the socket."""
        more_bytes = size_bytes - self._unsent_bytes
        self._unsent_bytes = size_bytes
        if more_bytes:
            self._budget.add_outgoing(more_bytes)

    def close(self) -> None:
        """Say that nothing more comes, and close once everything is written."""
        if self._is_established and not self._is_over:
            self._say_goodbye()
        self._end()
        self._transport.close()

    def _say_goodbye(self) -> None:
        assert self._object is not None
        with contextlib.suppress(ssl.SSLError):  # it wants the client's goodbye, and we do not wait
            self._object.unwrap()
        self._flush()

    def abort(self) -> None:
        """Close at once."""
        self._end()
        self._transport.abort()


def _in_words(error: Exception) -> str:
    """What OpenSSL says, without the line of its source."""
    reason = getattr(error, "reason", None)
    verify: Callable[[], str] | str = getattr(error, "verify_message", "")
    text = str(reason or error).replace("_", " ").lower()
    return f"{text}: {verify}" if verify else text
