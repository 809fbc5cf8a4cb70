"""Lines of a file or a pipe, read as they come, while something else must be looked after."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

from fencepost.cli.failures import InputError
from fencepost.cli.readiness import READABLE, wait_until

READ_BYTES: Final = 64 * 1024


def read_lines(
    descriptor: int,
    line_bytes_max: int,
    idle: Callable[[], float | None],
    waiting: Callable[[], AbstractContextManager[None]],
) -> Iterator[bytes]:
    """The lines without their ends (LF or CRLF); the last one need not have any.

    Before every read `idle` is called, and again after as many seconds as it says (None: when
    there is something to read). Only the wait itself happens within `waiting()`. Memory is bounded
    by `line_bytes_max`: InputError for a longer line, and when reading fails.
    """
    number, rest = 0, b""
    while chunk := _read(descriptor, idle, waiting):
        first, *others = chunk.split(b"\n")
        rest += first
        for following in others:
            number += 1
            yield rest.removesuffix(b"\r")
            rest = following
        if len(rest) > line_bytes_max:
            raise InputError(f"line {number + 1} is longer than {line_bytes_max} bytes")
    if rest:
        yield rest.removesuffix(b"\r")


def _read(
    descriptor: int,
    idle: Callable[[], float | None],
    waiting: Callable[[], AbstractContextManager[None]],
) -> bytes:
    while True:
        timeout_s = idle()
        try:
            with waiting():  # not around the read: an interrupt would lose what it got
                is_ready = wait_until(descriptor, READABLE, timeout_s)
            if is_ready:
                return os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            continue
        except OSError as error:
            raise InputError(f"the input cannot be read: {error.strerror}") from None
