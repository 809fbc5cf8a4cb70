"""The users of PLAIN: those of the login module, with their passwords as they are, and those of a
file, with hashes of theirs.

The file (`fencepost.sasl.plain.users.file`) has a user in every line, `NAME:HASH`, with what
`password_hashes.hash_password` makes of a password; lines that begin with # and empty ones are left
out. It is read again when it has changed. One that cannot be read then leaves the users as they
were, with a line in the log. A password that is to be held against a hash is for a thread.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fencepost.broker.security.password_hashes import (
    PasswordHash,
    PasswordHashError,
    hash_password,
    parse_hash,
)

log = logging.getLogger(__name__)

FILE_KEY: Final = "fencepost.sasl.plain.users.file"
FILE_BYTES_MAX: Final = 4 << 20
USER_PREFIX: Final = "user_"


class UsersFileError(ValueError):
    """A file of users that cannot be used; the text names the line, and no hash."""


class JaasUsers:
    """The users of a login module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._passwords = {
            name.removeprefix(USER_PREFIX): password.encode()
            for name, password in options.items()
            if name.startswith(USER_PREFIX)
        }

    def __contains__(self, user: str) -> bool:
        return user in self._passwords

    def __len__(self) -> int:
        return len(self._passwords)

    def check(self, user: str, password: bytes) -> bool:
        """See `PlainPasswords`."""
        known = self._passwords.get(user)
        is_right = hmac.compare_digest(password if known is None else known, password)
        return is_right and known is not None


class FileUsers:
    """The users of a file. UsersFileError where it cannot be used at the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = _stamp(path)
        self._secret = secrets.token_bytes(16)
        self._hashes = read_users(path)
        self._costs = _costs(self._hashes)

    def check(self, user: str, password: bytes) -> Callable[[], bool]:
        """See `PlainPasswords`."""
        return lambda: self._check(user, password)

    def _check(self, user: str, password: bytes) -> bool:
        self._read_again()
        known = self._hashes.get(user)
        is_right = (known or self._decoy(user)).matches(password)
        return is_right and known is not None

    def refuse(self, user: str, password: bytes) -> Callable[[], bool]:
        """Refuse a user of a login module, as slowly as one of the file or one that is not there:
        the time must not tell them apart."""

        def run() -> bool:
            self._decoy(user).matches(password)
            return False

        return run

    def _decoy(self, user: str) -> PasswordHash:
        """What the password of a user that is not there is held against: it costs what that of
        another one does, and the same every time."""
        costs = self._costs
        chosen = hashlib.blake2b(user.encode(), key=self._secret, digest_size=8).digest()
        return costs[int.from_bytes(chosen) % len(costs)]

    def _read_again(self) -> None:
        """Two threads may both do it, which is one time too many and nothing worse."""
        try:
            stamp = _stamp(self._path)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            hashes = read_users(self._path)
        except UsersFileError as error:
            log.error("%s=%s: the users stay as they were: %s", FILE_KEY, self._path, error)
        else:
            self._costs = _costs(hashes)
            self._hashes = hashes
            log.info("%s=%s: there are %d users now", FILE_KEY, self._path, len(hashes))


class PlainUsers:
    """A login module's users before those of a file."""

    def __init__(self, named: JaasUsers, in_file: FileUsers | None) -> None:
        self._named = named
        self._in_file = in_file

    def check(self, user: str, password: bytes) -> bool | Callable[[], bool]:
        """See `PlainPasswords`."""
        if self._in_file is None:
            return self._named.check(user, password)
        if user not in self._named:
            return self._in_file.check(user, password)
        return self._named.check(user, password) or self._in_file.refuse(user, password)


def read_users(path: Path) -> dict[str, PasswordHash]:
    """The users of a file, and the hashes of their passwords. UsersFileError."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise UsersFileError(f"it may have at most {FILE_BYTES_MAX} bytes")
        lines = data.decode().splitlines()
    except OSError as error:
        raise UsersFileError(f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsersFileError("it is not UTF-8") from None
    found: dict[str, PasswordHash] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, text = line.rpartition(":")
        if not colon or not name:
            raise UsersFileError(f"line {number} is not NAME:HASH")
        if name in found:
            raise UsersFileError(f"line {number} has a user that another line has")
        try:
            found[name] = parse_hash(text.strip())
        except PasswordHashError as error:
            raise UsersFileError(f"line {number} has no hash of a password: {error}") from None
    return found


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = os.stat(path)
    except OSError as error:
        raise UsersFileError(f"it cannot be read: {error.strerror}") from None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _costs(hashes: Mapping[str, PasswordHash]) -> tuple[PasswordHash, ...]:
    """One of the hashes for each cost that there is."""
    found = {(one.kind, one.costs): one for one in hashes.values()}
    return tuple(found.values()) or (parse_hash(hash_password(b"")),)
