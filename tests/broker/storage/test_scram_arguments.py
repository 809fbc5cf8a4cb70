"""Arguments of `fencepost format --add-scram`: Kafka's rules, and no secret in an error."""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import pbkdf2_hmac

import pytest

from fencepost.broker.storage.scram_arguments import (
    SALT_BYTES,
    ScramArgumentError,
    parse_scram_arguments,
)
from fencepost.machines.image import ScramMechanism
from fencepost.machines.image.scram import credential_of_record
from fencepost.machines.scram_keys import credential_of_salted_password

SECRET = "pa55w0rd"


def test_a_password_is_salted_here() -> None:
    first, second = parse_scram_arguments(
        [
            f" SCRAM-SHA-512=[name=ada,password={SECRET},iterations=+8192,] ",
            f'SCRAM-SHA-256=[iterations="4096",salt="c2FsdA",password="{SECRET}",name="a b=c"]',
        ]
    )
    assert (first.name, first.mechanism, first.iterations) == ("ada", 2, 8192)
    assert len(first.salt) == SALT_BYTES
    salted = pbkdf2_hmac("sha512", SECRET.encode(), first.salt, 8192)
    assert credential_of_record(first) == credential_of_salted_password(
        ScramMechanism.SHA_512, salted, first.salt, 8192
    )
    assert (second.name, second.mechanism, second.salt) == ("a b=c", 1, b"salt")


def test_a_salted_password_is_taken_as_it_is() -> None:
    salted = pbkdf2_hmac("sha256", SECRET.encode(), b"salt", 4096)
    text = b64encode(salted).decode()
    argument = f"SCRAM-SHA-256=[name=ada,saltedpassword={text},salt=c2FsdA==]"
    (made,) = parse_scram_arguments([argument])
    (of_password,) = parse_scram_arguments(
        [f"SCRAM-SHA-256=[name=ada,password={SECRET},salt=c2FsdA==]"]
    )
    assert made == of_password
    assert b64decode(text) not in (made.stored_key, made.server_key)


def test_salts_are_drawn() -> None:
    drawn = parse_scram_arguments([f"SCRAM-SHA-256=[name=ada,password={SECRET}]"] * 2)
    assert drawn[0].salt != drawn[1].salt


P = f"password={SECRET}"


@pytest.mark.parametrize(
    ("argument", "error"),
    [
        (f"SCRAM-SHA-256,{SECRET}", "Failed to find equals sign"),
        (f"PLAIN=[name=ada,{P}]", "The add-scram mechanism PLAIN is not supported"),
        (f"SCRAM-SHA-256=name=ada,{P}]", "to start with \\["),
        (f"SCRAM-SHA-256=[name=ada,{P}", "to end with \\]"),
        ("SCRAM-SHA-256=[]", "No equals sign found in SCRAM component 1"),
        ("SCRAM-SHA-256=[,]", "No equals sign found in SCRAM component 1"),
        (f"SCRAM-SHA-256=[name=ada,password=x,{SECRET}]", "component 3"),
        (f"SCRAM-SHA-256=[{P}]", "You must supply 'name'"),
        ("SCRAM-SHA-256=[name=ada]", "one of 'password' or 'saltedpassword'"),
        (f"SCRAM-SHA-256=[name=ada,saltedpassword={SECRET}]", "'salt' with 'saltedpassword'"),
        (f"SCRAM-SHA-256=[name=ada,salt=c2FsdA,saltedpassword={SECRET}x]", "given saltedPassword"),
        ("SCRAM-SHA-256=[name=ada,salt=c2FsdA,saltedpassword=]", "it is empty"),
        (f"SCRAM-SHA-256=[name=ada,{P},salt=c2FsdA=]", "decode given salt: c2FsdA="),
        (f"SCRAM-SHA-256=[name=ada,{P},salt=c2F_dA]", "decode given salt"),
        (f"SCRAM-SHA-256=[name=ada,{P},iterations=many]", "iterations count: many"),
        (f"SCRAM-SHA-256=[name=ada,{P},iterations=4294967296]", "iterations count"),
        (f"SCRAM-SHA-256=[name=ada,{P},iterations=4095]", ">= 4096 for add-scram using SCRAM_SHA"),
        (f"SCRAM-SHA-512=[name=ada,{P},iterations=16385]", "<= 16384"),
        (f"SCRAM-SHA-256=[name=ada,{P},b=c,a=d]", "Unknown SCRAM configurations: a, b"),
    ],
)
def test_what_is_refused(argument: str, error: str) -> None:
    with pytest.raises(ScramArgumentError, match=error) as refused:
        parse_scram_arguments([argument])
    assert SECRET not in str(refused.value)
