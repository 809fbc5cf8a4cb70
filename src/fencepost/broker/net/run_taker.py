"""Requests that are taken several at a time, from where they were received.

A route may have a `RunTaker`. Once a connection has dispatched one request of the route, the taker
is offered the bytes of those behind it that begin with the same header: it takes a run of them, or
none. What it can answer at once it answers, if nothing is in front of it. A `SlotTaker` puts a slot
of its own into the connection's queue of answers for each, and takes known answers of its slots
from there. So what is in Python is not done again for each request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, Protocol

from fencepost.broker.net.client_quotas import QuotaGate
from fencepost.machines.session import Principal
from fencepost.wire.types import Buffer

_CLIENT_ID_LENGTH: Final = Struct(">h")
_CLIENT_ID_AT: Final = 4


class RunSlot(Protocol):
    """A request of a run, in the place of a `PendingRequest`, until its answer has left."""

    @property
    def taker(self) -> SlotTaker:
        """Has put it here."""
        ...

    @property
    def answered(self) -> bool:
        """Whether the answer is known."""
        ...

    @property
    def version(self) -> int:
        """Of the request."""
        ...

    @property
    def correlation_id(self) -> int:
        """Of the request."""
        ...

    @property
    def frame_size_bytes(self) -> int:
        """Of the request."""
        ...

    @property
    def throttle_time_ms(self) -> int:
        """For how long the client is to be throttled, in milliseconds; 0 if it is not."""
        ...

    def throttle(self, throttle_time_ms: int) -> None:
        """See `runtime.requests.context.RequestContext`; until the answer leaves."""
        ...

    def abandoned(self) -> None:
        """The client is gone."""
        ...


class RunConnection(Protocol):
    """What a taker needs of a connection."""

    @property
    def principal(self) -> Principal:
        """Who the client is."""
        ...

    @property
    def client_host(self) -> str:
        """The client's address, without port."""
        ...

    @property
    def listener_name(self) -> str:
        """The listener that the client came in by."""
        ...

    @property
    def arrived_s(self) -> float:
        """When the latest bytes arrived, by `time.perf_counter`."""
        ...

    @property
    def waiting(self) -> deque[Any]:
        """The queue of answers: slots of takers and `PendingRequest`s, the oldest first."""
        ...

    @property
    def quotas(self) -> QuotaGate:
        """What requests are charged to."""
        ...

    @property
    def is_broker(self) -> bool:
        """Whether a broker is the client."""
        ...

    def mute(self, throttle_time_ms: int) -> None:
        """Take no further requests for so many milliseconds."""
        ...

    @property
    def available_bytes(self) -> int:
        """How large an answer should be at most."""
        ...

    @property
    def at_once_bytes(self) -> int:
        """How many bytes an answer may read before others come first."""
        ...

    def have_read(self, size_bytes: int) -> None:
        """An answer has read so many bytes from a log."""
        ...

    @property
    def frame_bytes_max(self) -> int:
        """The largest frame that may come, without its length."""
        ...

    def may_answer(self) -> bool:
        """Whether an answer that is made now would leave now. What was collected of other requests
        has taken effect."""
        ...

    def put_answer(self, parts: list[Buffer]) -> bool:
        """The answer to a request that has no slot, with nothing in front of it; whether another
        would leave now, too."""
        ...

    def queue(self, api_key: int, version: int, correlation_id: int, frame_size_bytes: int) -> Any:
        """The `PendingRequest` at the queue's end of a request that was taken and has to wait."""
        ...


class RunClient:
    """The client of a run, about which an authorizer is asked."""

    def __init__(self, connection: RunConnection, api_name: str) -> None:
        self.principal = connection.principal
        self.client_host = connection.client_host
        self.listener_name = connection.listener_name
        self.api_name = api_name


class RunTaker(Protocol):
    """Takes runs of requests of one route; see the module docstring."""

    @property
    def latest_bytes(self) -> int:
        """The size of the frames that were taken last and have slots."""
        ...

    def take(
        self,
        connection: RunConnection,
        frames: memoryview,
        start: int,
        end: int,
        head: bytes,
        requests_max: int,
    ) -> int:
        """Take requests from the front of frames[start:end]: answer them, or put slots for them
        into the connection's queue; where the first begins that was not taken.

        `head` is how they begin: API key, version, and what follows the correlation id. No answer
        leaves before this returns.
        """
        ...

    def counted_by(self, api: Any) -> RunTaker:
        """The same, which counts its requests in an `ApiMetrics`."""
        ...


class SlotTaker(RunTaker, Protocol):
    """One whose requests have slots, until their answers leave."""

    take_answers: Callable[[deque[Any], int], tuple[bytes, int, list[Any], int]]
    """Takes known answers of its slots from the front of a queue, as long as there is room for so
    many bytes: them, the bytes of the frames of their requests, those whose times are taken, and
    the longest throttle time among them in milliseconds."""

    def sent(self, slots: list[Any], now_s: float) -> None:
        """The answers leave whose times are taken; `now_s` is of `time.perf_counter`."""
        ...


def client_id_in(head: bytes) -> str:
    """The client id in how requests begin: see `RunTaker.take`."""
    (size_bytes,) = _CLIENT_ID_LENGTH.unpack_from(head, _CLIENT_ID_AT)
    begins = _CLIENT_ID_AT + _CLIENT_ID_LENGTH.size
    return head[begins : begins + max(size_bytes, 0)].decode(errors="replace")
