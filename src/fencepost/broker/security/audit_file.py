"""A file of lines that is replaced when it is large: `audit.log`, `audit.log.1`, `audit.log.2`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

MODE: Final = 0o640
"""The owner writes, the group reads: one who audits need not be one who operates."""


class RotatedFile:
    """Appends lines. All methods may raise OSError, after which the next one starts over."""

    def __init__(self, path: Path, max_bytes: int, files_max: int) -> None:
        """`files_max` counts the one that is written."""
        self._path = path
        self._max_bytes = max_bytes
        self._files_max = files_max
        self._handle: int | None = None
        self._size = 0

    def open(self) -> None:
        """Have the file there and open."""
        if self._handle is not None:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self._path, flags, MODE)
        try:
            os.fchmod(handle, MODE)  # whatever umask says, and whatever was there
            self._size = os.fstat(handle).st_size
        except OSError:
            os.close(handle)
            raise
        self._handle = handle

    def append(self, lines: Iterable[bytes]) -> None:
        """Write lines, each with its end; replace the file first if they do not fit."""
        data = b"".join(lines)
        self.open()
        if self._size and self._size + len(data) > self._max_bytes:
            self._rotate()
        assert self._handle is not None
        whole = self._size
        try:
            while data:
                written = os.write(self._handle, data)
                self._size += written
                data = data[written:]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, whole)  # half a line would spoil the next one
            self.close()
            raise

    def close(self) -> None:
        """Nothing is kept back, so nothing is lost."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            os.close(handle)

    def _rotate(self) -> None:
        self.close()
        for number in range(self._files_max - 1, 0, -1):
            older = self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        if self._files_max == 1:
            self._path.unlink(missing_ok=True)
        self.open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path
