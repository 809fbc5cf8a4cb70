"""Directories of deleted partitions: renamed at the deletion, removed some time later.

A reader that has begun may still use the files meanwhile. A name tells that a directory is deleted
(`names.is_deleted_dir`), so that a start finds what the last process has not removed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from fencepost.log.disk import Disk
from fencepost.log.names import is_deleted_dir

log = logging.getLogger(__name__)


class DeletedDirs:
    """Those of one log directory."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._since_ms: dict[str, int] = {}
        self._left: set[str] = set()

    def add(self, name: str, now_ms: int) -> None:
        """A partition was deleted now; its directory has this name."""
        self._since_ms[name] = now_ms

    def due(self, now_ms: int, delay_ms: int) -> list[str]:
        """Names of those that were deleted `delay_ms` ago or earlier; of those that an earlier
        process left, that were seen so long ago. OSError."""
        names = [name for name in self._disk.list(self._path) if is_deleted_dir(name)]
        self._since_ms = {name: self._since_ms.get(name, now_ms) for name in names}
        return [name for name in names if now_ms - self._since_ms[name] >= delay_ms]

    @property
    def first_ms(self) -> int | None:
        """When the first of those was deleted that are still there; None if there are none."""
        return min(self._since_ms.values(), default=None)

    def remove(self, names: Iterable[str]) -> int:
        """Remove these; how many. Links go without what they point to. OSError."""
        removed = 0
        for name in names:
            self._since_ms.pop(name, None)
            directory = f"{self._path}/{name}"
            if self._disk.is_link(directory):
                log.warning("%s is a symbolic link: removing the link, not its target", directory)
                self._disk.unlink(directory)
            elif self._disk.is_dir(directory):
                removed += self._remove(directory)
        return removed

    def _remove(self, directory: str) -> bool:
        """Remove a directory of files; one that holds a directory is none of ours, and is left."""
        names = self._disk.list(directory)
        for name in names:
            path = f"{directory}/{name}"
            if self._disk.is_dir(path) and not self._disk.is_link(path):
                if directory not in self._left:
                    log.warning("not removing %s: it contains a directory", directory)
                    self._left.add(directory)
                return False
        for name in names:
            self._disk.unlink(f"{directory}/{name}")
        self._disk.rmdir(directory)
        return True
