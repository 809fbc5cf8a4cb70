"""What a request is decided with: who sent it, in which version, and how its answer is given.

A module of this package decides the requests of one API, or of a few. It reads decoded messages and
answers with messages, without asyncio and sockets. In the broker a connection stands behind the
context (`broker.net.pending_request`); in the simulator a message that has arrived does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from fencepost.machines.session import Principal, SecurityProtocol
from fencepost.runtime import cooperative
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

QUANTUM_BYTES: Final = 1024 * 1024
"""How much of an answer is read before other connections have their turn."""
AVAILABLE_BYTES_MIN: Final = 64 * 1024
"""How large an answer may be, however short memory is."""

Pieces = cooperative.Pieces[Message | None]
"""A request that is decided in pieces: a generator that returns the response, or None if that comes
later through the context."""


class RequestContext(Protocol):
    """One request until it is answered."""

    @property
    def principal(self) -> Principal:
        """Who the client is."""
        ...

    @property
    def client_host(self) -> str:
        """The client's address, without port: for a forwarded request that of the client, not of
        the broker that forwards."""
        ...

    @property
    def listener_name(self) -> str:
        """The listener that the client came in by: its endpoints are the ones to answer with."""
        ...

    @property
    def api_name(self) -> str:
        """The API by its name in Kafka: `Produce`."""
        ...

    @property
    def security_protocol(self) -> SecurityProtocol:
        """How that listener is secured."""
        ...

    @property
    def client_id(self) -> str | None:
        """What the client calls itself."""
        ...

    @property
    def api_version(self) -> int:
        """The version of the request, and of its response."""
        ...

    @property
    def answered(self) -> bool:
        """Whether the answer is known."""
        ...

    @property
    def disconnected(self) -> bool:
        """Whether the client is gone; answering is then allowed and in vain."""
        ...

    def throttle(self, throttle_time_ms: int) -> None:
        """The client is to wait so long before its next request: the response says so in its
        `throttle_time_ms`. Of several such times the longest counts."""
        ...

    def add_buffered(self, size_bytes: int) -> None:
        """The request takes so much memory until its answer leaves, besides its frame."""
        ...

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call `callback` if the client leaves before the answer."""
        ...

    def reply(self, message: Message) -> None:
        """Answer. A second answer is a mistake and is refused by an assertion."""
        ...

    def reply_lazily(self, make: Callable[[], Message]) -> None:
        """Answer with what `make` returns, which is called once, when the answer is to leave."""
        ...

    def no_reply(self) -> None:
        """Leave the request without a response, as the protocol has it for Produce with acks=0."""
        ...

    def fail(self, error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> None:
        """Answer with the error where the API has a field for it, disconnect where it has not."""
        ...

    def close(self, reason: str) -> None:
        """Disconnect the client, with one log line."""
        ...
