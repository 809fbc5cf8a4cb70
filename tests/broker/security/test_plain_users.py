"""Users of PLAIN: those of a login module, and those of a file with hashes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from fencepost.broker.security.password_hashes import (
    PasswordHash,
    PasswordHashError,
    hash_password,
    parse_hash,
)
from fencepost.broker.security.plain_users import (
    FileUsers,
    JaasUsers,
    PlainUsers,
    UsersFileError,
    read_users,
)

QUICK_N = 1 << 10
ADA = hash_password(b"secret", QUICK_N)
PBKDF2 = "pbkdf2-sha512$100000$c2FsdCBvZiBhIHRlc3Q=$+7MSrGlJwKLrIgIIowX1YzTnDLI2v70wFlGubzJ9VYU="


def file_of(directory: Path, text: str) -> Path:
    path = directory / "users"
    path.write_text(text)
    return path


def test_a_hash_is_of_one_password_and_shows_neither():
    parsed = parse_hash(ADA)
    assert parsed.matches(b"secret")
    assert not parsed.matches(b"Secret")
    for place in range(len(parsed.digest)):
        changed = bytearray(parsed.digest)
        changed[place] ^= 1
        assert not replace(parsed, digest=bytes(changed)).matches(b"secret"), place
    assert "hidden" in repr(parsed)
    assert hash_password(b"secret", QUICK_N) != ADA, "each has a salt of its own"
    assert parse_hash(PBKDF2).matches(b"secret")
    assert not parse_hash(PBKDF2).matches(b"x")


@pytest.mark.parametrize(
    "text",
    [
        *("", "secret", "md5$AAAA", "scrypt$1024$8$1$AAAA", PBKDF2 + "$x"),
        "scrypt$1000$8$1$c2FsdCBvZiBhIHRlc3Q=$AAAAAAAAAAAAAAAAAAAAAA==",  # no power of two
        "scrypt$2$8$1$c2FsdCBvZiBhIHRlc3Q=$AAAAAAAAAAAAAAAAAAAAAA==",  # too cheap
        "scrypt$1048576$8$1$c2FsdCBvZiBhIHRlc3Q=$AAAAAAAAAAAAAAAAAAAAAA==",  # 1 GiB
        "scrypt$1024$8$99$c2FsdCBvZiBhIHRlc3Q=$AAAAAAAAAAAAAAAAAAAAAA==",
        "scrypt$1024$8$1$c2FsdA==$AAAAAAAAAAAAAAAAAAAAAA==",  # a short salt
        "scrypt$1024$8$1$c2FsdCBvZiBhIHRlc3Q=$AAAA",  # a short hash
        "scrypt$1024$8$1$***$AAAAAAAAAAAAAAAAAAAAAA==",
        "pbkdf2-sha512$1$c2FsdCBvZiBhIHRlc3Q=$AAAAAAAAAAAAAAAAAAAAAA==",
        "pbkdf2-sha512$999999999$c2FsdCBvZiBhIHRlc3Q=$AAAAAAAAAAAAAAAAAAAAAA==",
    ],
)
def test_what_is_no_hash_or_costs_too_much(text: str):
    with pytest.raises(PasswordHashError) as caught:
        parse_hash(text)
    assert "c2FsdCBvZiBhIHRlc3Q" not in str(caught.value)


def test_users_of_a_login_module():
    users = JaasUsers({"username": "x", "user_ada": "a", "user_": "b"})
    assert users.check("ada", b"a")
    assert users.check("", b"b")
    for name, password in (("ada", b"b"), ("eve", b""), ("eve", b"a"), ("x", b"")):
        assert not users.check(name, password)


def test_users_of_a_file_are_read_again_when_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = file_of(tmp_path, f"# users\n\nada:{ADA}\nco:lon:{ADA}\n")
    users = FileUsers(path)
    assert users.check("ada", b"secret")()
    assert users.check("co:lon", b"secret")()
    assert not users.check("ada", b"other")()
    assert not users.check("eve", b"secret")()
    path.write_text(f"eve:{ADA}\n")
    assert users.check("eve", b"secret")()
    assert not users.check("ada", b"secret")()
    path.write_text("eve:planted-secret")
    assert users.check("eve", b"secret")(), "they stay as they were"
    os.unlink(path)
    assert users.check("eve", b"secret")()
    assert "stay as they were" in caplog.text
    assert "planted-secret" not in caplog.text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ada\n", "line 1 is not NAME:HASH"),
        (f":{PBKDF2}\n", "line 1 is not NAME:HASH"),
        (f"ada:{PBKDF2}\nada:{PBKDF2}\n", "line 2 has a user that another line has"),
        ("\nada:x\n", "line 2 has no hash"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, reason: str):
    with pytest.raises(UsersFileError, match=reason):
        read_users(file_of(tmp_path, text))


def test_a_login_modules_users_come_first(tmp_path: Path):
    users = PlainUsers(
        JaasUsers({"user_ada": "other"}), FileUsers(file_of(tmp_path, f"ada:{ADA}\neve:{ADA}"))
    )
    assert users.check("ada", b"other") is True
    refused = users.check("ada", b"secret")
    assert callable(refused)
    assert not refused()
    checked = users.check("eve", b"secret")
    assert callable(checked)
    assert checked()


def test_users_of_a_login_module_are_refused_as_slowly_as_others(tmp_path: Path):
    """Or the time would tell their names."""
    users = PlainUsers(JaasUsers({"user_ada": "jaas"}), FileUsers(file_of(tmp_path, f"bob:{ADA}")))
    assert users.check("ada", b"jaas") is True
    for user in ("ada", "bob", "eve"):
        checked = users.check(user, b"wrong")
        assert callable(checked), user
        assert not checked()


def test_a_user_that_is_not_there_costs_what_another_does_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    users = FileUsers(file_of(tmp_path, f"ada:{ADA}\nbob:{PBKDF2}\n"))
    tried: list[str] = []

    def matches(self: PasswordHash, password: bytes) -> bool:
        tried.append(self.kind)
        return True

    monkeypatch.setattr(PasswordHash, "matches", matches)
    strangers = [f"stranger-{number}" for number in range(64)]
    for _ in range(2):
        assert not any(users.check(name, b"x")() for name in strangers)
    assert tried[:64] == tried[64:]
    assert set(tried) == {"scrypt", "pbkdf2-sha512"}
