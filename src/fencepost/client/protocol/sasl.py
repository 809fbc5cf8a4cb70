"""Authentication: SASL PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677) or OAUTHBEARER (RFC 7628), as
Kafka carries them.

`authenticate` is what a client says: SaslHandshake version 1, then a SaslAuthenticate request for
each message of the mechanism (KIP-152).
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Generator
from typing import Any, Final

from fencepost.client.errors import AuthenticationFailed
from fencepost.client.protocol.oauthbearer import (
    MECHANISM as OAUTHBEARER,
    OAuthBearerExchange,
)
from fencepost.client.security import Security
from fencepost.machines.image.scram import ScramMechanism
from fencepost.machines.scram_keys import (
    ITERATIONS_MIN,
    client_key_of,
    combined,
    salted_password,
    server_key_of,
    signature_of,
    stored_key_of,
)
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateRequest
from fencepost.wire.api.sasl_handshake import SaslHandshakeRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Request

# A server that asks for more rounds only wants to keep us busy (Kafka's own maximum is 16384).
SCRAM_ITERATIONS_MAX: Final = 1_000_000

SESSION_PART_MIN: Final = 0.85
SESSION_PART_MAX: Final = 0.95
"""After which part of its session a connection logs in again, drawn at random, as Java clients do,
so that connections that were made together do not all do it at the same time."""
SESSION_MARGIN_MS: Final = 400
"""Before the end of a session no request is sent: it has to be read in it, and where machines are
busy that takes its time. It counts in sessions of a few seconds."""
RENEWAL_INTERVAL_MS: Final = 1_000
"""Brokers do not let a connection log in again sooner than that after the last time."""

Authentication = Generator[tuple[Request[Any], int | None], Any, int]


def authenticate(
    security: Security, *, host: str | None = None, token: str | None = None
) -> Authentication:
    """Yields requests, returns for how many milliseconds the session lasts (KIP-368), 0: for ever.

    `token` is the access token that OAUTHBEARER needs (`client.tokens.access_token`).
    AuthenticationFailed, naming `host`, when the broker refuses the mechanism or the credentials,
    or cannot prove that it knows the password.
    """
    mechanism = security.mechanism
    shaken = yield SaslHandshakeRequest(mechanism=mechanism), 1
    if shaken.error_code != ErrorCode.NONE:
        raise AuthenticationFailed(
            f"SASL {mechanism} is not among the broker's mechanisms {shaken.mechanisms}",
            host=host,
            code=shaken.error_code,
        )
    exchange = sasl_exchange(security, token)
    message = exchange.first()
    while True:
        was_last = exchange.done
        answer = yield SaslAuthenticateRequest(auth_bytes=message), None
        if answer.error_code != ErrorCode.NONE:
            raise AuthenticationFailed(
                answer.error_message or "the broker refused the credentials",
                host=host,
                code=answer.error_code,
            )
        if was_last:
            exchange.finish(bytes(answer.auth_bytes))
            return int(answer.session_lifetime_ms)
        message = exchange.next(bytes(answer.auth_bytes))


def renewal_after_ms(lifetime_ms: int, drawn: float) -> float:
    """How many milliseconds after a login the connection has to log in again (KIP-368), so that no
    request reaches the broker behind the session's end. `drawn` is a random number up to 1."""
    part_ms = lifetime_ms * (SESSION_PART_MIN + drawn * (SESSION_PART_MAX - SESSION_PART_MIN))
    earliest_ms = min(part_ms, RENEWAL_INTERVAL_MS)
    return max(earliest_ms, min(part_ms, lifetime_ms - SESSION_MARGIN_MS))


class PlainExchange:
    """RFC 4616: one message, no answer worth reading."""

    def __init__(self, username: str, password: str) -> None:
        self._message = b"\0" + username.encode() + b"\0" + password.encode()
        self.done = False

    def first(self) -> bytes:
        self.done = True
        return self._message

    def next(self, challenge: bytes) -> bytes:
        raise AuthenticationFailed("the broker continued a PLAIN exchange that was already over")

    def finish(self, last: bytes) -> None:
        """Nothing to verify: PLAIN proves nothing about the server."""


class ScramExchange:
    """Client side of SCRAM: proves the password without sending it, and verifies the server."""

    def __init__(
        self,
        mechanism: str,
        username: str,
        password: str,
        nonce: str | None = None,
        *,
        token_authenticated: bool = False,
    ) -> None:
        known = ScramMechanism.named(mechanism)
        assert known is not None, mechanism
        self._mechanism = known
        self._password = password.encode()
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(24)).decode()
        extensions = ",tokenauth=true" if token_authenticated else ""
        self._first_bare = f"n={name},r={self._nonce}{extensions}"
        self._server_signature = b""
        self.done = False

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def next(self, challenge: bytes) -> bytes:
        """The proof that answers the server's salt and iteration count."""
        fields = _scram_fields(challenge)
        nonce, salt_text, rounds_text = (fields.get(name, "") for name in "rsi")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("the broker's SCRAM nonce does not extend ours")
        if not rounds_text.isdecimal():
            raise AuthenticationFailed(f"the broker's SCRAM iteration count is {rounds_text!r}")
        rounds = int(rounds_text)
        if not ITERATIONS_MIN <= rounds <= SCRAM_ITERATIONS_MAX:
            raise AuthenticationFailed(f"the broker asks for {rounds} SCRAM iterations")
        try:
            salt = base64.b64decode(salt_text, validate=True)
        except ValueError as error:
            raise AuthenticationFailed("the broker's SCRAM salt is not base64") from error
        mechanism = self._mechanism
        salted = salted_password(mechanism, self._password, salt, rounds)
        without_proof = f"c=biws,r={nonce}"
        signed = ",".join((self._first_bare, challenge.decode(), without_proof)).encode()
        client_key = client_key_of(mechanism, salted)
        signature = signature_of(mechanism, stored_key_of(mechanism, client_key), signed)
        proof = combined(client_key, signature)
        server_key = server_key_of(mechanism, salted)
        self._server_signature = signature_of(mechanism, server_key, signed)
        self.done = True
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def finish(self, last: bytes) -> None:
        """Check that the server knew the password too."""
        fields = _scram_fields(last)
        if "e" in fields:
            raise AuthenticationFailed(f"the broker refused the credentials: {fields['e']}")
        expected = base64.b64encode(self._server_signature).decode()
        if not hmac.compare_digest(fields.get("v", ""), expected):
            raise AuthenticationFailed("the broker could not prove that it knows the password")


def sasl_exchange(
    security: Security, token: str | None = None
) -> PlainExchange | ScramExchange | OAuthBearerExchange:
    """The exchange for the configured mechanism; AuthenticationFailed without credentials."""
    if security.mechanism == OAUTHBEARER:
        if token is None:
            raise AuthenticationFailed("OAUTHBEARER needs an access token")
        return OAuthBearerExchange(token, security.tokens.extensions)
    if security.username is None or security.password is None:
        raise AuthenticationFailed(
            f"{security.protocol} needs sasl.username and sasl.password or sasl.jaas.config"
        )
    if security.mechanism == "PLAIN":
        return PlainExchange(security.username, security.password)
    return ScramExchange(
        security.mechanism,
        security.username,
        security.password,
        token_authenticated=security.token_authenticated,
    )


def _scram_fields(message: bytes) -> dict[str, str]:
    try:
        text = message.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationFailed("the broker's SCRAM message is not text") from error
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}
