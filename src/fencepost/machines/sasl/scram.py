"""The server's side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677; KIP-84).

Stricter than Kafka where the RFC is: both sides sign the bytes that were sent, the client has to
repeat its GS2 header, and its nonce has to be the whole nonce. A user that does not exist gets a
salt like any other, the same every time, and fails at the proof, as a wrong password does: so
neither the answer nor the number of messages tells whether there is such a user.

A client that sends the extension `tokenauth=true` logs in with a delegation token (KIP-48): its
user name is the token's id, and its principal the token's owner.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from fencepost.machines.image.scram import ScramCredential, ScramMechanism
from fencepost.machines.sasl.credentials import ScramCredentials, TokenCredentials
from fencepost.machines.sasl.scram_messages import (
    ClientFinal,
    ClientFirst,
    ScramMessageError,
    read_client_final,
    read_client_first,
)
from fencepost.machines.sasl.steps import Challenge, Done, Failed, SaslStep
from fencepost.machines.scram_keys import ITERATIONS_MIN, combined, signature_of, stored_key_of

TOKEN_EXTENSION: Final = "tokenauth"
OTHER_IDENTITY: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_SALT_VALUES: Final = 1 << 130


class ScramLookups(Struct, frozen=True):
    """Where the credentials of logins are."""

    users: ScramCredentials
    tokens: TokenCredentials | None = None
    """None where no delegation tokens are."""
    secret: bytes = b""
    """What salts of users that do not exist are made of; the same for as long as possible."""
    iterations: Callable[[str], Sequence[int]] = lambda mechanism: ()
    """The numbers of iterations that credentials of a mechanism have, in order."""


class _Login(Struct, frozen=True):
    """A user, from its first message to its last."""

    first: ClientFirst
    credential: ScramCredential | None
    """None for a user that does not exist."""
    name: str
    expires_ms: int | None
    has_token: bool


class ScramServer:
    """See the module. `nonce` is random, printable ASCII without a comma, and used only once."""

    def __init__(self, mechanism: ScramMechanism, lookups: ScramLookups, nonce: str) -> None:
        self._mechanism = mechanism
        self._name = mechanism.mechanism_name
        self._lookups = lookups
        self._nonce = nonce.encode("ascii")
        self._login: _Login | None = None
        self._server_first = b""
        self._is_over = False

    def step(self, token: bytes) -> SaslStep:
        """See `SaslServer`."""
        if self._is_over:
            return Failed(f"a token came behind the end of {self._name}")
        try:
            if self._login is None:
                step = self._begin(read_client_first(token))
            else:
                step = self._end(self._login, read_client_final(token))
        except ScramMessageError as error:
            step = Failed(str(error))
        if not isinstance(step, Challenge):
            self._is_over, self._login = True, None
        return step

    def _begin(self, first: ClientFirst) -> SaslStep:
        login = self._find(first)
        if first.identity not in ("", first.user):
            return Failed(OTHER_IDENTITY, told=OTHER_IDENTITY)
        credential = login.credential
        salt, iterations = self._made_up(first.user, has_token=login.has_token)
        if credential is not None:
            salt, iterations = credential.salt, credential.iterations
        if iterations < ITERATIONS_MIN:
            return Failed(f"the credential has {iterations} iterations, fewer than the minimum")
        self._login = login
        self._server_first = b"r=%b%b,s=%b,i=%d" % (
            first.nonce,
            self._nonce,
            base64.b64encode(salt),
            iterations,
        )
        return Challenge(self._server_first)

    def _find(self, first: ClientFirst) -> _Login:
        lookups, user = self._lookups, first.user
        if first.extensions.get(TOKEN_EXTENSION, "").lower() == "true":
            tokens = lookups.tokens
            token = None if tokens is None else tokens.find(user, self._name)
            if token is None:
                return _Login(first, None, user, None, True)
            return _Login(first, token.credential, token.owner.name, token.expires_ms, True)
        return _Login(first, lookups.users.find(user, self._name), user, None, False)

    def _end(self, login: _Login, final: ClientFinal) -> SaslStep:
        nonce = login.first.nonce + self._nonce
        if not hmac.compare_digest(final.nonce, nonce):
            return Failed("the client's final nonce is not the one it was given")
        if final.binding != login.first.header:
            return Failed("the client's final message repeats another GS2 header")
        credential = login.credential
        if credential is None:
            what = "delegation token" if login.has_token else "credential"
            return Failed(f"there is no such {what}")
        signed = b",".join((login.first.bare, self._server_first, final.signed))
        signature = signature_of(self._mechanism, credential.stored_key, signed)
        if len(final.proof) != len(signature):
            return Failed("the client's proof has another length than the hash")
        shown = stored_key_of(self._mechanism, combined(final.proof, signature))
        if not hmac.compare_digest(shown, credential.stored_key):
            return Failed("the client's proof is wrong")
        own = signature_of(self._mechanism, credential.server_key, signed)
        answer = b"v=" + base64.b64encode(own)
        return Done(answer, login.name, login.expires_ms, login.has_token)

    def _made_up(self, user: str, *, has_token: bool) -> tuple[bytes, int]:
        """A salt like those of Kafka's own tools, which is a number of 130 bits to base 36; and one
        of the numbers of iterations that other users have. Made for each login, so that the time
        does not tell which are used."""
        named = f"{self._name}:{user}".encode()
        made = hmac.digest(self._lookups.secret, named, "sha256")
        number, digits = int.from_bytes(made) % _SALT_VALUES, []
        while number:
            number, digit = divmod(number, len(_DIGITS))
            digits.append(_DIGITS[digit])
        counts = () if has_token else self._lookups.iterations(self._name)
        iterations = counts[made[0] % len(counts)] if counts else ITERATIONS_MIN
        return "".join(reversed(digits)).encode(), iterations
