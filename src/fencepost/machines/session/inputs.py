"""The inputs of a session, and what it has its connection do. Times are of the monotonic clock."""

from __future__ import annotations

from msgspec import Struct

from fencepost.machines.session.principal import Principal
from fencepost.wire.errors import ErrorCode


class ClientConnected(Struct, frozen=True):
    """The connection is there."""


class TlsEstablished(Struct, frozen=True):
    """The TLS handshake is complete."""

    principal: Principal
    """What the client's certificate maps to; ANONYMOUS if it has shown none."""


class TlsFailed(Struct, frozen=True):
    """TLS failed: its handshake, a certificate that maps to no principal, or a record later on."""

    reason: str


class RequestArrived(Struct, frozen=True):
    """A request is there, of which only the header's first fields have been read."""

    api_key: int
    now_ms: int


class TokenArrived(Struct, frozen=True):
    """A frame has arrived behind a handshake of v0: it is a token of the mechanism, with no
    header."""


class VersionsAnswered(Struct, frozen=True):
    """An ApiVersions request was answered without an error."""


class HandshakeArrived(Struct, frozen=True):
    """A SaslHandshake request, which was let through, has been read."""

    mechanism: str
    version: int
    """Behind v0 the client sends tokens without headers, behind v1 SaslAuthenticate requests."""
    now_ms: int


class ChallengeSent(Struct, frozen=True):
    """The mechanism has answered the client's token and wants another."""


class Authenticated(Struct, frozen=True):
    """The mechanism has authenticated the client; the last answer has not been sent yet."""

    principal: Principal
    now_ms: int
    credential_expires_ms: int | None = None
    """When what the client has shown expires; None if it does not."""


class AuthenticationFailed(Struct, frozen=True):
    """The mechanism refuses the client."""


class DelayElapsed(Struct, frozen=True):
    """The delay of a refusal or of a disconnection is over."""


class ClientDisconnected(Struct, frozen=True):
    """The client has left."""


SessionInput = (
    ClientConnected
    | TlsEstablished
    | TlsFailed
    | RequestArrived
    | TokenArrived
    | VersionsAnswered
    | HandshakeArrived
    | ChallengeSent
    | Authenticated
    | AuthenticationFailed
    | DelayElapsed
    | ClientDisconnected
)


class Proceed(Struct, frozen=True):
    """Go on: read what comes next, have the handler answer the request, send the token."""


class Refuse(Struct, frozen=True):
    """Answer the request with this error."""

    error: ErrorCode
    delay_ms: int | None = None
    """None if the connection stays. Else nothing is read from it any more, the answer leaves after
    so long, and `DelayElapsed` follows."""


class Disconnect(Struct, frozen=True):
    """Close the connection without an answer to what came last."""

    reason: str
    delay_ms: int = 0
    """Nothing is read from it any more, and it is closed after so long."""


class Ignore(Struct, frozen=True):
    """Do nothing: the session is closing."""


SessionReaction = Proceed | Refuse | Disconnect | Ignore
