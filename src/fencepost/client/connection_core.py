"""What blocking and asyncio connections have in common: everything but the socket.

Which version is spoken, what is sent in which frame, how a connection begins (ApiVersions, then
SASL), and when it has to log in again, as it is (KIP-368). Requests that are on their way then are
answered first.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any, Final, TypeVar

from fencepost.client.protocol.framing import FrameReader
from fencepost.client.protocol.in_flight import InFlightRequests, Token
from fencepost.client.protocol.negotiation import negotiate
from fencepost.client.protocol.sasl import authenticate, renewal_after_ms
from fencepost.client.protocol.versions import ServedVersions, check_version, choose_version
from fencepost.client.security import Security
from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.message import Message, Request
from fencepost.wire.types import Buffer

MAX_RESPONSE_BYTES: Final = 128 * 1024 * 1024

R = TypeVar("R", bound=Message)
Opening = Generator[tuple[Request[Any], int | None], Any, None]


class ConnectionCore(ABC):
    """See the module. Errors name `host:port`."""

    def __init__(
        self, host: str, port: int, client_id: str, security: Security, max_response_bytes: int
    ) -> None:
        self.host = host
        self.port = port
        self.security = security
        self.max_response_bytes = max_response_bytes
        self.api_versions = ServedVersions()
        self.session_ends_at: float | None = None  # monotonic seconds
        self._client_id = client_id
        self.start_over()

    @property
    def address(self) -> str:
        """ "host:port", as in error texts."""
        return f"{self.host}:{self.port}"

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether requests can be sent."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect; requests on their way are lost."""

    @property
    def in_flight(self) -> int:
        """Requests sent whose answers have not been read."""
        return len(self._in_flight)

    @property
    def is_expired(self) -> bool:
        """Whether the session is about to end, so that a login comes before the next request."""
        return self.session_ends_at is not None and time.monotonic() >= self.session_ends_at

    def version_for(
        self,
        request_class: type[Message],
        *,
        lowest: int | None = None,
        highest: int | None = None,
    ) -> int:
        """The version both ends speak; raises UnsupportedApi."""
        return choose_version(
            request_class, self.api_versions, lowest=lowest, highest=highest, host=self.address
        )

    def agree(self, message: Message, version: int | None, highest: int | None) -> int:
        """The version that `message` goes out at: the negotiated one unless one is given.

        UnsupportedApi for a version that the broker does not have. ApiVersions alone may go out at
        any, since every broker answers it, with error 35 where it does not know it (KIP-511).
        """
        if version is None:
            return self.version_for(type(message), highest=highest)
        if message.api_key != ApiVersionsRequest.api_key:
            check_version(type(message), self.api_versions, version, host=self.address)
        return version

    def frame(self, message: Request[R], version: int) -> tuple[Token[R], list[Buffer]]:
        """Take note of a request; its frame, in pieces. Errors as `InFlightRequests.send`."""
        return self._in_flight.send(message, version)

    def start_over(self) -> None:
        """Nothing is on its way: the connection is a new one."""
        self._in_flight = InFlightRequests(self._client_id, host=self.address)
        self._reader = FrameReader(self.max_response_bytes, host=self.address)

    def negotiation(self, first_version: int) -> Opening:
        """Fill `api_versions`. A broker that breaks off is to be called again with version 0."""
        self.api_versions = yield from negotiate(first_version, host=self.address)

    def authentication(self, token: str | None) -> Opening:
        """Authenticate, if the security settings say so; `token` is what OAUTHBEARER needs."""
        if not self.security.uses_sasl:
            return
        self.session_ends_at = None
        lifetime_ms = yield from authenticate(self.security, host=self.address, token=token)
        if lifetime_ms > 0:
            after_ms = renewal_after_ms(lifetime_ms, random.random())
            self.session_ends_at = time.monotonic() + after_ms / 1000
