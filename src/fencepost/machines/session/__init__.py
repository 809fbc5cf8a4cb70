"""The session of one connection: which requests it lets through, how large, and who the client is.

| state          | begins with                        | largest frame | APIs let through |
|----------------|------------------------------------|---------------|------------------|
| OPEN           | the connection                     | none          | none             |
| TLS            | the connection, on a TLS listener  | none          | none             |
| HANDSHAKE      | the connection or the end of TLS,  | before login  | SaslHandshake,   |
|                | on a SASL listener                 |               | ApiVersions once |
| AUTHENTICATE   | a SaslHandshake                    | before login  | SaslAuthenticate |
| READY          | the end of authentication, or at   | any           | all              |
|                | once where there is none           |               |                  |
| REAUTHENTICATE | a SaslHandshake in READY (KIP-368) | before login  | SaslAuthenticate |
| CLOSING        | a refusal, or the client's end     | none          | none             |

A frame before login has `sasl.server.max.receive.size` at most, any other
`socket.request.max.bytes`.

The machine decides from what it is told: a request has arrived, a mechanism has authenticated the
client or refused it, a delay is over. TLS and the SASL mechanisms themselves are not part of it.

On a PLAINTEXT listener the first step leads from OPEN to READY, and the client is
User:ANONYMOUS; on an SSL one it does so once TLS is established, and the client is who its
certificate says, or User:ANONYMOUS if it showed none.
"""

from fencepost.machines.session.inputs import (
    Authenticated,
    AuthenticationFailed,
    ChallengeSent,
    ClientConnected,
    ClientDisconnected,
    DelayElapsed,
    Disconnect,
    HandshakeArrived,
    Ignore,
    Proceed,
    Refuse,
    RequestArrived,
    SessionInput,
    SessionReaction,
    TlsEstablished,
    TlsFailed,
    TokenArrived,
    VersionsAnswered,
)
from fencepost.machines.session.machine import Session, SessionState, UnexpectedInputError
from fencepost.machines.session.principal import ANONYMOUS, USER, Principal
from fencepost.machines.session.rules import SecurityProtocol, SessionRules

__all__ = [
    "ANONYMOUS",
    "USER",
    "Authenticated",
    "AuthenticationFailed",
    "ChallengeSent",
    "ClientConnected",
    "ClientDisconnected",
    "DelayElapsed",
    "Disconnect",
    "HandshakeArrived",
    "Ignore",
    "Principal",
    "Proceed",
    "Refuse",
    "RequestArrived",
    "SecurityProtocol",
    "Session",
    "SessionInput",
    "SessionReaction",
    "SessionRules",
    "SessionState",
    "TlsEstablished",
    "TlsFailed",
    "TokenArrived",
    "UnexpectedInputError",
    "VersionsAnswered",
]
