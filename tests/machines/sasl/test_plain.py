"""PLAIN on the server's side: the checks, in their order, and their texts."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from fencepost.machines.sasl import Done, Failed, PlainServer, Work
from tests.machines.sasl.lookups import Passwords

WRONG = "Authentication failed: Invalid username or password"
USERS = {"ada": "pass word", "ünï": "pässword"}


def refusal(message: bytes) -> str:
    step = PlainServer(Passwords(USERS)).step(message)
    assert isinstance(step, Failed)
    assert step.told == step.reason
    return step.told


@pytest.mark.parametrize("identity", [b"", b"ada"])
def test_a_user_logs_in(identity: bytes):
    assert PlainServer(Passwords(USERS)).step(identity + b"\0ada\0pass word") == Done(b"", "ada")


def test_names_and_passwords_are_their_bytes_of_utf_8():
    message = "\0ünï\0pässword".encode()
    assert PlainServer(Passwords(USERS)).step(message) == Done(b"", "ünï")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"ada\0pass word", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0ada\0pass word\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0a\0b\0c\0d\0e", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0", "Authentication failed: username not specified"),
        (b"\0ada\0", "Authentication failed: password not specified"),
        (b"\0ada\0PASS WORD", WRONG),
        (b"\0eve\0pass word", WRONG),
        (b"\0\xff\xfe\0pass word", WRONG),
        (b"eve\0ada\0wrong", WRONG),  # the password comes before the identity
        (  # CVE-2017-12610: a user logs in and names another as the one to act for
            b"eve\0ada\0pass word",
            "Authentication failed: Client requested an authorization id that is different from"
            " username",
        ),
    ],
)
def test_what_is_wrong_is_said_in_kafkas_words(message: bytes, text: str):
    assert refusal(message) == text


def test_what_takes_long_is_handed_out():
    step = PlainServer(Passwords(USERS, is_slow=True)).step(b"eve\0ada\0pass word")
    assert isinstance(step, Work)
    judged = step.then(step.run())
    assert isinstance(judged, Failed)
    assert "different from" in judged.reason
    server = PlainServer(Passwords(USERS, is_slow=True))
    step = server.step(b"\0ada\0pass word")
    assert isinstance(step, Work)
    assert step.then(True) == Done(b"", "ada")
    assert step.then(False) == Failed(WRONG, told=WRONG)
    assert isinstance(server.step(b"\0ada\0pass word"), Failed)


def test_nothing_comes_behind_the_end():
    server = PlainServer(Passwords(USERS))
    server.step(b"\0ada\0no")
    assert isinstance(server.step(b"\0ada\0pass word"), Failed)


@given(st.binary(max_size=60))
def test_no_message_gets_in_without_the_password(message: bytes):
    passwords = Passwords(USERS)
    step = PlainServer(passwords).step(message)
    is_right = message.endswith((b"\0ada\0pass word", "\0ünï\0pässword".encode()))
    assert is_right or isinstance(step, Failed)
    assert len(passwords.checked) <= 1
