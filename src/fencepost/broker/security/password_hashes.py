"""Passwords as one-way hashes: what a file of users has in their place.

    scrypt$16384$8$1$<salt>$<hash>
    pbkdf2-sha512$210000$<salt>$<hash>

Salt and hash are base64. Both functions are the standard library's. A hash of other people's making
is not run before its cost has been looked at: scrypt takes 128 * n * r bytes, which is 64 MiB at
most, and both take time, a second or so at most.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Final

from msgspec import Struct

SCRYPT: Final = "scrypt"
PBKDF2: Final = "pbkdf2-sha512"
DEFAULT_N: Final = 1 << 14
SALT_BYTES: Final = 16
HASH_BYTES: Final = 32
SCRYPT_BYTES_MAX: Final = 64 << 20
PARALLEL_MAX: Final = 4
ITERATIONS_MIN: Final = 100_000
ITERATIONS_MAX: Final = 2_000_000
_MARGIN_BYTES: Final = 1 << 20
"""What scrypt may take besides."""


class PasswordHashError(ValueError):
    """A text that is no hash, or one that costs too little or too much; it is not repeated."""


class PasswordHash(Struct, frozen=True):
    """A password's hash, and what is needed to compute another."""

    kind: str
    costs: tuple[int, ...]
    salt: bytes
    digest: bytes

    def __repr__(self) -> str:
        return f"PasswordHash({self.kind}, <hidden>)"

    def matches(self, password: bytes) -> bool:
        """Whether this is the password; takes milliseconds."""
        return hmac.compare_digest(self._digest_of(password), self.digest)

    def _digest_of(self, password: bytes) -> bytes:
        size = len(self.digest)
        if self.kind == PBKDF2:
            return hashlib.pbkdf2_hmac("sha512", password, self.salt, self.costs[0], size)
        n, r, p = self.costs
        most = 128 * n * r + _MARGIN_BYTES
        return hashlib.scrypt(password, salt=self.salt, n=n, r=r, p=p, maxmem=most, dklen=size)


def parse_hash(text: str) -> PasswordHash:
    """Read a hash. PasswordHashError."""
    kind, *fields = text.split("$")
    wanted = {SCRYPT: 5, PBKDF2: 3}.get(kind)
    if wanted != len(fields):
        raise PasswordHashError(
            f"it must be {SCRYPT}$N$R$P$SALT$HASH or {PBKDF2}$ITERATIONS$SALT$HASH"
        )
    *numbers, salt, digest = fields
    if not all(one.isascii() and one.isdecimal() and len(one) < 10 for one in numbers):
        raise PasswordHashError("its costs must be numbers")
    costs = tuple(map(int, numbers))
    _check_costs(kind, costs)
    try:
        parsed = PasswordHash(kind, costs, _bytes(salt), _bytes(digest))
    except binascii.Error:
        raise PasswordHashError("salt and hash must be base64") from None
    if len(parsed.salt) < 8 or not 16 <= len(parsed.digest) <= 64:
        raise PasswordHashError("the salt must have 8 bytes at least, the hash 16 to 64")
    return parsed


def hash_password(password: bytes, n: int = DEFAULT_N) -> str:
    """The text to keep in the password's place: scrypt, with a new salt."""
    hashed = PasswordHash(SCRYPT, (n, 8, 1), secrets.token_bytes(SALT_BYTES), bytes(HASH_BYTES))
    salt, digest = map(_text, (hashed.salt, hashed._digest_of(password)))
    return f"{SCRYPT}${n}$8$1${salt}${digest}"


def _check_costs(kind: str, costs: tuple[int, ...]) -> None:
    if kind == PBKDF2:
        if not ITERATIONS_MIN <= costs[0] <= ITERATIONS_MAX:
            raise PasswordHashError(f"it must have {ITERATIONS_MIN} to {ITERATIONS_MAX} iterations")
        return
    n, r, p = costs
    is_power = n >= DEFAULT_N // 16 and n & (n - 1) == 0
    if not is_power or r < 1 or not 1 <= p <= PARALLEL_MAX or 128 * n * r > SCRYPT_BYTES_MAX:
        raise PasswordHashError(
            f"N must be a power of two, {DEFAULT_N // 16} at least, 128 * N * R at most "
            f"{SCRYPT_BYTES_MAX}, and P at most {PARALLEL_MAX}"
        )


def _bytes(text: str) -> bytes:
    return base64.b64decode(text.encode(), validate=True)


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()
