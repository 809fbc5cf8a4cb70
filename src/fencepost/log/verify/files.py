"""As much of a disk as looking at it takes."""

from __future__ import annotations

import os
from typing import Protocol

from fencepost.log.disk import FILE_BYTES_MAX, read_whole
from fencepost.log.dump.batches import Readable
from fencepost.log.dump.files import PlainFile


class OpenFile(Readable, Protocol):
    """A file to be closed."""

    def close(self) -> None:
        """Let go of the file."""
        ...


class Files(Protocol):
    """The part of `fencepost.log.disk.Disk` that changes nothing. Everything: OSError."""

    def open(self, path: str) -> OpenFile:
        """The file for reading."""
        ...

    def read(self, path: str, max_bytes: int = FILE_BYTES_MAX) -> bytes:
        """The whole content; CorruptFileError if it is more than that."""
        ...

    def list(self, directory: str) -> list[str]:
        """Names in the directory, sorted."""
        ...

    def is_dir(self, path: str) -> bool:
        """Whether there is a directory."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        ...


class PlainFiles:
    """The operating system's files."""

    def open(self, path: str) -> PlainFile:
        """See `Files`."""
        return PlainFile(path)

    def read(self, path: str, max_bytes: int = FILE_BYTES_MAX) -> bytes:
        """See `Files`."""
        return read_whole(path, max_bytes)

    def list(self, directory: str) -> list[str]:
        """See `Files`."""
        return sorted(os.listdir(directory))

    def is_dir(self, path: str) -> bool:
        """See `Files`."""
        return os.path.isdir(path)

    def exists(self, path: str) -> bool:
        """See `Files`."""
        return os.path.exists(path)
