"""How a connection is secured: TLS, and SASL PLAIN or SCRAM (RFC 5802, RFC 7677).

`Security` is plain data, so it travels in pickles; its repr hides secrets. The SASL classes are
sans-IO: they turn server messages into client messages and raise AuthenticationFailed. Sending
them (SaslHandshake v1, then SaslAuthenticate) is the connection's business.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import ssl
from dataclasses import dataclass, field

from fencepost.client.errors import AuthenticationFailed

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

# A server that asks for more rounds only wants to keep us busy (Kafka's own maximum is 16384).
SCRAM_ITERATIONS_MAX = 1_000_000
SCRAM_ITERATIONS_MIN = 4096


@dataclass(frozen=True, slots=True)
class Security:
    """What `security.protocol` and its companions say; PEM files only, no Java key stores."""

    protocol: str = "PLAINTEXT"
    ca_file: str | None = None
    ca_pem: str | None = field(default=None, repr=False)
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    mechanism: str = "PLAIN"
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def tls_context(self) -> ssl.SSLContext:
        """A client context; raises OSError or ssl.SSLError on unreadable files."""
        context = ssl.create_default_context(cafile=self.ca_file, cadata=self.ca_pem)
        context.check_hostname = self.check_hostname
        if self.certificate_file is not None:
            context.load_cert_chain(self.certificate_file, self.key_file, self.key_password)
        return context


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
        self, mechanism: str, username: str, password: str, nonce: str | None = None
    ) -> None:
        self._hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
        self._password = password.encode()
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(24)).decode()
        self._first_bare = f"n={name},r={self._nonce}"
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
        if not SCRAM_ITERATIONS_MIN <= rounds <= SCRAM_ITERATIONS_MAX:
            raise AuthenticationFailed(f"the broker asks for {rounds} SCRAM iterations")
        try:
            salt = base64.b64decode(salt_text, validate=True)
        except ValueError as error:
            raise AuthenticationFailed("the broker's SCRAM salt is not base64") from error
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, rounds)
        without_proof = f"c=biws,r={nonce}"
        signed = ",".join((self._first_bare, challenge.decode(), without_proof)).encode()
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        signature = self._hmac(stored_key, signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
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

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self._hash).digest()


def sasl_exchange(security: Security) -> PlainExchange | ScramExchange:
    """The exchange for the configured mechanism; AuthenticationFailed without credentials."""
    if security.username is None or security.password is None:
        raise AuthenticationFailed(
            f"{security.protocol} needs sasl.username and sasl.password or sasl.jaas.config"
        )
    if security.mechanism == "PLAIN":
        return PlainExchange(security.username, security.password)
    return ScramExchange(security.mechanism, security.username, security.password)


def _scram_fields(message: bytes) -> dict[str, str]:
    try:
        text = message.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationFailed("the broker's SCRAM message is not text") from error
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}
