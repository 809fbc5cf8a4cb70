"""Secrets that commands read and write: passwords are asked for at the terminal, or read from a
file or standard input, and what has a secret is written to a file for its owner alone.

A password never comes from the command line, which every user of the machine can read (`ps`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

from fencepost.cli.failures import InputError, UsageError

PASSWORD_BYTES_MAX: Final = 4096


def add_password_option(parser: argparse.ArgumentParser) -> None:
    """Add --password-file."""
    parser.add_argument(
        "--password-file",
        type=Path,
        metavar="FILE",
        help="read the password from the first line of a file (-: of standard input) instead of"
        " asking for it",
    )


def read_password(arguments: argparse.Namespace, whose: str) -> str:
    """The new password of `whose`, without the end of its line. InputError, UsageError."""
    path: Path | None = arguments.password_file
    if path is None:
        return _ask(whose)
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.readline(PASSWORD_BYTES_MAX + 1)
        else:
            with path.open("rb") as file:
                data = file.readline(PASSWORD_BYTES_MAX + 1)
        password = data.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise UsageError(f"--password-file {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InputError(f"--password-file {path}: the password is not UTF-8") from None
    if not password or len(data) > PASSWORD_BYTES_MAX:
        raise InputError(
            f"--password-file {path}: the first line must have 1 to {PASSWORD_BYTES_MAX} bytes"
        )
    return password


def _ask(whose: str) -> str:
    import getpass  # for people at a terminal only

    if not sys.stdin.isatty():
        raise UsageError("standard input is no terminal: give --password-file FILE, or - for it")
    password = getpass.getpass(f"new password of {whose}: ")
    if not password:
        raise InputError("the password must not be empty")
    if getpass.getpass("again: ") != password:
        raise InputError("the two passwords differ; nothing was changed")
    return password


@contextlib.contextmanager
def new_secret_file(path: Path) -> Iterator[TextIO]:
    """A file that was not there, which only its owner can read; it is removed again if what writes
    it fails. InputError."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise
