"""A disk that hangs, or refuses: a real one, where threads open its files to bring them in.

While it hangs, nothing of it is in the page cache: what the kernel reads ahead does not count.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from fencepost.broker.storage import cold_reads
from fencepost.log.disk import open_regular
from fencepost.log.page_cache import NotCachedError, PageCache

from ..waiting import DEADLINE_S


class SlowDisk:
    """Opens files for reading threads; those in one directory only when it is let go."""

    def __init__(self) -> None:
        self.hung_dir = "nowhere"
        self.error: int | None = None
        self.lost_dir = "nowhere"
        """Nothing of it is in the page cache, whatever has been read."""
        self.go = threading.Event()
        self.asked: list[str] = []

    def open(self, path: str, flags: int) -> int:
        self.asked.append(path)
        if self.is_hung(path):
            assert self.go.wait(DEADLINE_S)
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))
        return open_regular(path, flags)

    def is_hung(self, path: str) -> bool:
        return self.hung_dir in Path(path).parts and not self.go.is_set()

    def put_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have reading threads and the event loop meet it."""
        monkeypatch.setattr(cold_reads, "open_regular", self.open)
        read = PageCache.read

        def read_or_miss(
            cache: PageCache, path: str, descriptor: int, size: int, position: int
        ) -> bytearray | None:
            if self.is_hung(path) or self.lost_dir in Path(path).parts:
                raise NotCachedError(path, position, size)
            return read(cache, path, descriptor, size, position)

        monkeypatch.setattr(PageCache, "read", read_or_miss)
