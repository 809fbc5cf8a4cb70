"""What is sent of a user who logs in by SCRAM: what PBKDF2 makes of the password."""

from __future__ import annotations

import hashlib

import pytest

from fencepost.client.scram_users import SALT_BYTES, UserScramCredentialUpsertion
from fencepost.machines.image.scram import ScramMechanism


@pytest.mark.parametrize("iterations", [4_096, 8_192, 16_384])
@pytest.mark.parametrize(
    ("mechanism", "hash_name"),
    [(ScramMechanism.SHA_256, "sha256"), (ScramMechanism.SHA_512, "sha512")],
)
def test_a_password_is_salted_as_often_as_it_says(
    mechanism: ScramMechanism, hash_name: str, iterations: int
):
    asked = UserScramCredentialUpsertion("ada", mechanism, "pass wörd", iterations, b"salt").wire()
    expected = hashlib.pbkdf2_hmac(hash_name, "pass wörd".encode(), b"salt", iterations)
    assert (asked.name, asked.mechanism, asked.iterations) == ("ada", mechanism, iterations)
    assert (asked.salt, asked.salted_password) == (b"salt", expected)


def test_a_salt_is_random_unless_it_is_given():
    wished = UserScramCredentialUpsertion("ada", ScramMechanism.SHA_256, "secret")
    first, second = wished.wire(), wished.wire()
    assert len(first.salt) == len(second.salt) == SALT_BYTES
    assert first.salt != second.salt and first.salted_password != second.salted_password
    assert first.iterations == 8_192
    assert "secret" not in repr(wished) + repr(first)
