"""A finished copy takes the place of the segments it was made of.

Theory of operation
-------------------
In the log's memory that happens at once (`PartitionLog.begin_swap`): readers get the copy, whose
file is open and whose indexes are in memory, so that its names do not matter to them. The names
follow in `run`, which any thread may call, in Kafka's order, each step durable before the next:

| step                                      | what a crash behind it leads to                  |
|-------------------------------------------|--------------------------------------------------|
| `.cleaned` files are written and synced   | the old segments: `.cleaned` is removed          |
| they become `.swap`                       | the new one: what it covers is removed           |
| the old segments' files become `.deleted` | the new one                                      |
| `.swap` of the segment file goes          | the new one; its indexes follow at the start  |
| `.swap` of its indexes goes               | the new one                                      |

`fencepost.log.interrupted_cleanup` settles what a crash leaves. Amid the first renames both kinds
of suffix are there, which means the old segments; so whatever an abandoned copy has left must be
gone for good before the old segments go, and the sync behind the second step sees to it.

The log's owner must not touch names of these segments meanwhile: `PartitionLog` calls `run` itself
first, which waits for the other thread, or does the work.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from fencepost.log.disk import Disk
from fencepost.log.health import Health
from fencepost.log.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    offset_file,
)
from fencepost.log.segment import Segment

_INDEX_SUFFIXES = tuple(suffix for suffix in SEGMENT_SUFFIXES if suffix != LOG_SUFFIX)


class Swap:
    """The renames of one swap; made by `PartitionLog.begin_swap`."""

    def __init__(
        self, disk: Disk, directory: str, health: Health, old_bases: Sequence[int], new: Segment
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._health = health
        self.old_bases = old_bases
        """Base offsets of the segments that go, in order."""
        self._lock = threading.Lock()
        self._is_done = False
        self.new = new
        self.deleted: list[str] = []
        """Paths of what is to be unlinked some time later."""

    def run(self) -> None:
        """Do it, once; other calls wait. OSError, after which the log has failed; LogFailedError.

        Any thread.
        """
        with self._lock:
            self._health.check()
            if self._is_done:
                return
            try:
                self._rename()
            except OSError as error:
                self._health.fail(f"compacted segments could not be put in place: {error}")
                raise
            self._is_done = True

    def _rename(self) -> None:
        disk, directory = self._disk, self._directory
        base = self.new.base_offset
        for suffix in SEGMENT_SUFFIXES:
            self._move(base, suffix + CLEANED_SUFFIX, suffix + SWAP_SUFFIX)
        disk.sync_dir(directory)
        for old in self.old_bases:
            for suffix in SEGMENT_SUFFIXES:
                moved = self._move(old, suffix, suffix + DELETED_SUFFIX)
                if moved is not None:
                    self.deleted.append(moved)
        disk.sync_dir(directory)
        self._move(base, LOG_SUFFIX + SWAP_SUFFIX, LOG_SUFFIX)
        disk.sync_dir(directory)
        for suffix in _INDEX_SUFFIXES:
            self._move(base, suffix + SWAP_SUFFIX, suffix)
        disk.sync_dir(directory)

    def _move(self, base_offset: int, suffix: str, new_suffix: str) -> str | None:
        """Give a file another suffix if it is there; its new path."""
        disk, directory = self._disk, self._directory
        path = f"{directory}/{offset_file(base_offset, suffix)}"
        if not disk.exists(path):
            return None
        new_path = f"{directory}/{offset_file(base_offset, new_suffix)}"
        disk.rename(path, new_path)
        return new_path
