"""SCRAM users of a node, by its PLAINTEXT listener."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Mapping

from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)

from ...waiting import DEADLINE_S
from ..listener_fixtures import Client

SALT, ITERATIONS = b"salt of a test", 4096


def add_users(port: int, passwords: Mapping[str, str]) -> None:
    """Users for SCRAM-SHA-256 and SCRAM-SHA-512."""
    upsertions = [
        ScramCredentialUpsertion(
            name=user,
            mechanism=mechanism,
            iterations=ITERATIONS,
            salt=SALT,
            salted_password=hashlib.pbkdf2_hmac(name, password.encode(), SALT, ITERATIONS),
        )
        for user, password in passwords.items()
        for mechanism, name in ((1, "sha256"), (2, "sha512"))
    ]
    with Client(socket.create_connection(("127.0.0.1", port), DEADLINE_S)) as client:
        for upsertion in upsertions:  # one request has a user only once
            request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
            assert client.ask(request, 0).results[0].error_code == 0
