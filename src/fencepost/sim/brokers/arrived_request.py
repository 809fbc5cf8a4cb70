"""`ArrivedRequest`: the `RequestContext` of a request that has arrived at a simulated broker."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, Protocol

from fencepost.machines.session import ANONYMOUS, Principal, SecurityProtocol
from fencepost.runtime.requests.context import Pieces
from fencepost.sim.oracle import Violation
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

Reply = Callable[[Message], None]


class WorksInPieces(Protocol):
    """A lane of a broker's scheduler."""

    def begin(self, work: Pieces, /) -> object:
        """Work on it, until it is done."""
        ...


class ArrivedRequest:
    """See the module. An answer is posted at once; the network says what becomes of it.

    The clients of a world have no addresses and, but for guests, no names; they obey no throttling,
    and a broker does not learn that one of them is gone.
    """

    client_host: Final = "simulated"
    listener_name: Final = "PLAINTEXT"
    security_protocol: Final = SecurityProtocol.PLAINTEXT
    client_id: Final = "member"
    disconnected: Final = False
    available_bytes: Final = 1 << 31
    at_once_bytes: Final = 1 << 31
    fetch_bytes_max: Final = 1 << 31

    def __init__(
        self,
        name: str,
        api_version: int,
        post: Reply,
        lane: WorksInPieces,
        source_id: int,
        principal: Principal = ANONYMOUS,
    ) -> None:
        """`name` is for messages about a handler that fails; what is decided in pieces is worked on
        in `lane`; a sender has one connection, which never ends."""
        self.source_id = source_id
        self.principal = principal
        self.api_version = api_version
        self.answered = False
        self.api_name = name.removesuffix("Request")
        self._name = name
        self._post = post
        self._lane = lane

    def throttle(self, throttle_time_ms: int) -> None:
        """Clients of a world do not wait."""

    def is_throttled_for(self, size_bytes: int) -> bool:
        """Clients of a world have no quotas."""
        return False

    def add_buffered(self, size_bytes: int) -> None:
        """Memory is not limited."""

    def add_outgoing(self, size_bytes: int) -> None:
        """Memory is not limited."""

    def have_read(self, size_bytes: int) -> None:
        """Connections do not share a loop."""

    def comes_from_broker(self) -> None:
        """Brokers wait no less than clients."""

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """A client never leaves, for all a broker knows."""

    def reply(self, message: Message) -> None:
        """Post the answer."""
        assert not self.answered, f"{self._name} is answered twice"
        self.answered = True
        self._post(message)

    def reply_when_next(
        self, make: Callable[[], Message | Pieces], pieces: Callable[[], Pieces]
    ) -> None:
        """Post what `make` returns, at once or when its pieces are done: no answer is in front."""
        self.decided(make())

    def reply_lazily(self, make: Callable[[], Message]) -> None:
        """Post what `make` returns."""
        self.reply(make())

    def no_reply(self) -> None:
        """Post nothing; the client waits for nothing."""
        self.answered = True

    def fail(self, error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> None:
        """No handler may fail, whatever a world does to it."""
        raise Violation("unforeseen", f"{self._name} v{self.api_version} fails: {error.name}")

    def close(self, reason: str) -> None:
        """Post nothing; the client waits until its request has timed out."""
        self.answered = True

    def decided(self, answer: Message | Pieces | None) -> None:
        """What a handler returns: the answer, or how it is made, or nothing yet."""
        if isinstance(answer, Generator):
            self._lane.begin(self._answering(answer))
        elif answer is not None:
            self.reply(answer)

    def _answering(self, pieces: Pieces) -> Pieces:
        """`pieces`, and then the answer that they return."""
        try:
            message = yield from pieces
        except Exception as error:
            raise Violation("unforeseen", f"{self._name} v{self.api_version} fails") from error
        if message is not None:
            self.reply(message)
        return None
