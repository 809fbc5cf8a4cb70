"""The keys of SCRAM (RFC 5802, section 3): what is made of a password, and what proves it.

    salted password = PBKDF2(password, salt, iterations)
    client key      = HMAC(salted password, "Client Key")
    stored key      = H(client key)
    server key      = HMAC(salted password, "Server Key")
    client proof    = client key XOR HMAC(stored key, what both sides have said)

Passwords are taken as their UTF-8 bytes: Kafka does not apply SASLprep to them.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from fencepost.machines.image.scram import ScramCredential, ScramMechanism

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
"""Kafka's bounds of PBKDF2's iterations, for both mechanisms."""


def salted_password(
    mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int
) -> bytes:
    """What is as good as the password. It takes milliseconds."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)


def client_key_of(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """The key that a client's proof shows."""
    return hmac.digest(salted, b"Client Key", mechanism.hash_name)


def stored_key_of(mechanism: ScramMechanism, client_key: bytes) -> bytes:
    """What the client's key is checked by."""
    return hashlib.new(mechanism.hash_name, client_key).digest()


def server_key_of(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """The key that a server signs with."""
    return hmac.digest(salted, b"Server Key", mechanism.hash_name)


def signature_of(mechanism: ScramMechanism, key: bytes, said: bytes) -> bytes:
    """What a key makes of what both sides have said."""
    return hmac.digest(key, said, mechanism.hash_name)


def combined(one: bytes, other: bytes) -> bytes:
    """A key and a signature as a proof, or a proof and the signature as the key again.

    ValueError if they are not of one length.
    """
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def credential_of_salted_password(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """What is stored of a password that was salted with `salt`, `iterations` times."""
    return ScramCredential(
        salt=salt,
        stored_key=stored_key_of(mechanism, client_key_of(mechanism, salted)),
        server_key=server_key_of(mechanism, salted),
        iterations=iterations,
    )
