"""Requests on their way over one connection, and which response answers which.

Brokers answer in the order of the requests, so every response must carry the correlation id of the
oldest request without one; anything else means that the stream can no longer be trusted.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from fencepost.client.errors import ClientError, ProtocolError
from fencepost.client.protocol.versions import KeyedApi
from fencepost.wire.api import response_class
from fencepost.wire.api.produce import ProduceRequest
from fencepost.wire.errors import WireError
from fencepost.wire.frame import decode_response, encode_request_parts
from fencepost.wire.message import Message, Request
from fencepost.wire.types import ELEMENTS_UNLIMITED, Buffer

IN_FLIGHT_MAX: Final = 1024

_CORRELATION_ID = struct.Struct(">i")
_CORRELATION_IDS: Final = 1 << 31
FIRST_CORRELATION_ID: Final = ord("\n")
"""A server of a protocol of lines, such as HTTP, reads on until one ends. With this id in the
first request the server answers at once, and by its answer a client knows it."""

R = TypeVar("R", bound=Message)


class Token(NamedTuple, Generic[R]):
    """One request on its way, and what its response is read as."""

    correlation_id: int
    response_class: type[R]
    version: int


class InFlightRequests:
    """The requests of one connection that have no response yet, oldest first."""

    __slots__ = ("_client_id", "_host", "_max_elements", "_next_id", "_waiting")

    def __init__(
        self,
        client_id: str,
        *,
        max_elements: int = ELEMENTS_UNLIMITED,
        host: str | None = None,
    ) -> None:
        """`max_elements` bounds a response's array elements, which become objects; errors name
        `host`."""
        self._client_id = client_id
        self._host = host
        self._max_elements = max_elements
        self._next_id = FIRST_CORRELATION_ID
        self._waiting: deque[Token[Any]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, token: Token[Any]) -> bool:
        return token in self._waiting

    @property
    def oldest(self) -> Token[Any]:
        """The request that the next response answers; there must be one."""
        return self._waiting[0]

    def send(
        self, request: Request[R], version: int, keyed: KeyedApi | None = None
    ) -> tuple[Token[R], list[Buffer]]:
        """Take note of a request; its frame, in pieces. `keyed` is for one without a key.

        ClientError when too many are in flight, EncodeError for what `version` cannot say; nothing
        is to be sent then. Produce with acks=0 gets no response, and nothing waits for one.
        """
        api_key = request.api_key if keyed is None else keyed.api_key
        assert api_key is not None, type(request).__name__
        if len(self._waiting) >= IN_FLIGHT_MAX:
            raise ClientError(f"more than {IN_FLIGHT_MAX} requests in flight", host=self._host)
        answer = response_class(api_key) if keyed is None else keyed.response_class
        token = Token(self._next_id, cast("type[R]", answer), version)
        parts = encode_request_parts(
            request, version, token.correlation_id, self._client_id, api_key=api_key
        )
        self._next_id = (self._next_id + 1) % _CORRELATION_IDS
        if is_answered(request):
            self._waiting.append(token)
        return token, parts

    def match(self, frame: Buffer) -> Token[Any]:
        """The request that `frame` answers, no longer in flight. ProtocolError if there is none."""
        if not self._waiting:
            raise ProtocolError("sent a response that no request waits for", host=self._host)
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        due = self._waiting[0]
        if correlation_id != due.correlation_id:
            raise ProtocolError(
                f"answered correlation id {correlation_id} where {due.correlation_id} was due",
                host=self._host,
            )
        return self._waiting.popleft()

    def decode(self, token: Token[R], frame: Buffer) -> R:
        """The response in `frame`. ProtocolError when it cannot be read.

        Bytes behind the message are passed over, as Kafka's own clients do.
        """
        cls, version = token.response_class, token.version
        try:
            _, response = decode_response(
                cls, version, frame, max_elements=self._max_elements, allow_trailing=True
            )
        except WireError as error:
            raise ProtocolError(
                f"cannot read {cls.__name__} version {version}: {error}", host=self._host
            ) from error
        return response

    def clear(self) -> None:
        """The connection is gone: no response will come."""
        self._waiting.clear()


def is_answered(request: Message) -> bool:
    """Whether a broker answers `request`: all but Produce with acks=0."""
    return not (isinstance(request, ProduceRequest) and request.acks == 0)
