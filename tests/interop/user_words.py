"""Changes of quotas and of SCRAM users in few words."""

from __future__ import annotations

import hashlib

from fencepost.wire.api.alter_client_quotas import EntityData, EntryDataRequest, OpData
from fencepost.wire.api.alter_user_scram_credentials import ScramCredentialUpsertion

PASSWORD = "of-the-test"


def quota(key: str, value: float, *, remove: bool = False, **parts: str | None) -> EntryDataRequest:
    """A change of one quota of the entity with these parts; `client_id` stands for client-id."""
    entity = [
        EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
        for kind, name in parts.items()
    ]
    return EntryDataRequest(entity=entity, ops=[OpData(key=key, value=value, remove=remove)])


def credential(name: str, mechanism: int, iterations: int = 4096) -> ScramCredentialUpsertion:
    """Let a user log in with the password; mechanism 1 is SHA-256, 2 is SHA-512."""
    digest = {1: "sha256", 2: "sha512"}.get(mechanism, "sha256")
    salted = hashlib.pbkdf2_hmac(digest, PASSWORD.encode(), b"salt", iterations)
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )
