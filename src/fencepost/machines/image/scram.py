"""SCRAM credentials of users, as the metadata log has them (KIP-900).

A credential is what a server needs to check a client's proof (RFC 5802): neither the password nor
anything that could be sent in its place. Its `repr` shows no key.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from msgspec import Struct

from fencepost.machines.image.persistent import PersistentMap
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import UserScramCredentialRecord


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms, with their numbers in records and requests (KIP-554)."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """The name as `sasl.enabled.mechanisms` has it."""
        return f"SCRAM-SHA-{self.name[-3:]}"

    @property
    def hash_name(self) -> str:
        """The name of the hash function in `hashlib`."""
        return f"sha{self.name[-3:]}"

    @classmethod
    def named(cls, mechanism_name: str) -> ScramMechanism | None:
        """The mechanism with that name, or None if it is not a SCRAM mechanism."""
        return next((each for each in cls if each.mechanism_name == mechanism_name), None)


class ScramCredential(Struct, frozen=True):
    """The stored half of a SCRAM secret (RFC 5802, section 3)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(<hidden>, iterations={self.iterations})"


ScramImage = PersistentMap[tuple[str, int], ScramCredential]
"""Credentials by (user, number of the mechanism)."""


def credential_record(
    user: str, mechanism: int, credential: ScramCredential
) -> UserScramCredentialRecord:
    """The record that sets a user's credential."""
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def credential_of_record(record: UserScramCredentialRecord) -> ScramCredential:
    """The credential that a record sets."""
    return ScramCredential(
        bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
    )


def scram_records(credentials: ScramImage) -> Iterator[tuple[Message, int]]:
    """All credentials as a snapshot has them, by mechanism and user."""
    for user, mechanism in sorted(credentials, key=lambda key: (key[1], key[0])):
        yield credential_record(user, mechanism, credentials[user, mechanism]), 0
