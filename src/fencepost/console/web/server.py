"""The console's HTTP server: uvicorn on one address, until it is interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from fencepost.console.session import Session
from fencepost.console.web.access import Access
from fencepost.console.web.application import application
from fencepost.console.web.hosts import Address, Hosts

CONNECTIONS_MAX: Final = 100
"""More are answered 503."""
REQUEST_HEAD_BYTES_MAX: Final = 16 * 1024
SENDING_S: Final = 10.0
"""How long a client may take to send a request, and to take more of an answer."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class _Limit:
    """Aborts a connection unless it is stopped within SENDING_S seconds of its start."""

    _timer: asyncio.TimerHandle | None = None

    def start(self, protocol: H11Protocol) -> None:
        """Begin to count; nothing where it counts already."""
        if self._timer is None:
            self._timer = protocol.loop.call_later(SENDING_S, protocol.transport.abort)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _TimedProtocol(H11Protocol):
    """Closes connections of clients that are slow to send a request or to take an answer.

    An answer that is long in coming, such as a tail of records, is never cut for that: the client
    owes nothing while it is made."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._receiving, self._writing = _Limit(), _Limit()
        super().connection_made(transport)
        self._receiving.start(self)

    def handle_events(self) -> None:
        super().handle_events()
        # From the first byte of a request to its last.
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._receiving.start(self)
        else:
            self._receiving.stop()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None:  # that is its time limit now
            self._receiving.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiving.stop()
        self._writing.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing.start(self)

    def resume_writing(self) -> None:
        self._writing.stop()
        super().resume_writing()


class _Server(uvicorn.Server):
    """Says where it is once it answers and signals end it. SIGINT and SIGTERM are meant: the
    process goes on to its own end."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], Any]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(
    session: Session,
    address: Address,
    on_ready: Callable[[str], Any],
    access: Access | None = None,
    allowed_hosts: Iterable[str] = (),
) -> None:
    """Answer on `address` (port 0 for a free one) until the process is interrupted; `on_ready` is
    given the URL, which has the token where there is one. Raises OSError where the address cannot
    be had, BadAddress for `allowed_hosts`."""
    access = access or Access()
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.create_server((address.host, address.port), family=family) as listener:
        bound = Address(address.host, listener.getsockname()[1])
        hosts = Hosts(bound, allowed_hosts)
        token = "" if access.token is None else f"?token={access.token}"
        config = uvicorn.Config(
            application(session, hosts, access, f"fencepost-console-{bound.port}"),
            http=_TimedProtocol,
            ws="none",
            loop="asyncio",
            log_level="critical",  # what a client does wrong is answered, and fills no log
            access_log=False,  # tokens are in no log
            server_header=False,
            h11_max_incomplete_event_size=REQUEST_HEAD_BYTES_MAX,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=0,
        )
        url = f"http://{bound.url_host}:{bound.port}/{token}"
        _Server(config, lambda: on_ready(url)).run(sockets=[listener])
