"""The server's side of OAUTHBEARER (RFC 7628; KIP-255, KIP-768).

The client's first message has its access token. A token that is rejected is answered with a JSON
object in a challenge, as the RFC has it; the client has to answer a single byte 0x01, and only then
is it refused. Extensions are read and dropped: nothing here decides by them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from fencepost.machines.sasl.claims import AcceptedToken, RejectedToken
from fencepost.machines.sasl.steps import Challenge, Done, Failed, SaslStep, Work

OAUTHBEARER: Final = "OAUTHBEARER"
ACKNOWLEDGED: Final = b"\x01"
"""What a client answers when its token has been rejected."""
INVALID_TOKEN: Final = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
_SASL_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<identity>{_SASL_NAME}))?,\x01(?P<pairs>(?s:.*))\x01")
_PAIR: Final = re.compile(r"(?P<key>[A-Za-z]+)=(?P<value>[\x21-\x7E \t\r\n]+)")
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)

ValidateToken = Callable[[str], AcceptedToken | RejectedToken]
"""Whether a token is good: its signature, and what it claims. For a thread."""


class BearerMessageError(ValueError):
    """Bytes that are no first message; the text does not repeat them."""


class BearerMessage(Struct, frozen=True):
    """What a client begins with."""

    token: str
    identity: str
    """Who the client wants to act as; empty for the token's principal."""
    extensions: dict[str, str]


def read_first(message: bytes) -> BearerMessage:
    """Read a client's first message. BearerMessageError."""
    found = _FIRST.fullmatch(message.decode(errors="replace"))
    if found is None:
        raise BearerMessageError("Invalid OAUTHBEARER client first message")
    pairs: dict[str, str] = {}
    for text in found["pairs"].split("\x01")[:-1]:
        pair = _PAIR.fullmatch(text)
        if pair is None or pair["key"] in pairs:
            raise BearerMessageError("Invalid OAUTHBEARER client first message")
        pairs[pair["key"]] = pair["value"]
    if found["pairs"] and not found["pairs"].endswith("\x01"):
        raise BearerMessageError("Invalid OAUTHBEARER client first message")
    auth = _AUTH.fullmatch(pairs.pop("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise BearerMessageError("Invalid OAUTHBEARER client first message: no bearer token")
    identity = (found["identity"] or "").replace("=2C", ",").replace("=3D", "=")
    return BearerMessage(auth["token"], identity, pairs)


class OAuthBearerServer:
    """See the module."""

    def __init__(self, validate: ValidateToken) -> None:
        self._validate = validate
        self._rejection: str | None = None
        self._is_over = False

    def step(self, token: bytes) -> SaslStep:
        """See `SaslServer`."""
        if self._is_over:
            return Failed("a token came behind the end of OAUTHBEARER")
        if self._rejection is not None:
            self._is_over = True
            told = INVALID_TOKEN if token == ACKNOWLEDGED else None
            return Failed(self._rejection, told=told)
        try:
            message = read_first(token)
        except BearerMessageError as error:
            self._is_over = True
            return Failed(str(error))
        return Work(
            lambda: self._validate(message.token),
            lambda judged: self._judge(judged, message.identity),
        )

    def _judge(self, judged: AcceptedToken | RejectedToken, identity: str) -> SaslStep:
        if isinstance(judged, RejectedToken):
            self._rejection = f"the access token is rejected: {judged.reason}"
            return Challenge(INVALID_TOKEN.encode())
        self._is_over = True
        if identity not in ("", judged.principal):
            text = (
                "Authentication failed: Client requested an authorization id "
                f"({identity}) that is different from the token's principal name "
                f"({judged.principal})"
            )
            return Failed(text, told=text)
        return Done(b"", judged.principal, judged.expires_ms)
