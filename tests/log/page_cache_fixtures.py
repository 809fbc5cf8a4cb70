"""Files whose pages are not in the page cache."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.log.page_cache import NotCachedError

from ..waiting import DEADLINE_S

PATIENCE_S = 5
"""For a file system that may never give pages up: the test is skipped then."""

_libc = ctypes.CDLL(None, use_errno=True)


def make_cold(path: Path) -> None:
    """Have the kernel forget the pages of a file; the test is skipped where that cannot be had."""
    if not hasattr(os, "RWF_NOWAIT"):
        pytest.skip("this system does not tell what is in the page cache")
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            if not _cached_pages(descriptor):
                return
    finally:
        os.close(descriptor)
    pytest.skip("this file system does not give pages up")


def refusal_of(path: Path, read: Callable[[], object]) -> NotCachedError:
    """What `read` raises of a cold file.

    To be refused has the kernel read ahead, and a thread that is interrupted between asking and
    looking finds the pages there: the file is made cold again then.
    """
    ends = time.monotonic() + DEADLINE_S
    while time.monotonic() < ends:
        make_cold(path)
        try:
            read()
        except NotCachedError as error:
            return error
    pytest.fail(f"what is not cached of {path} was read without waiting for {DEADLINE_S} s")


def _cached_pages(descriptor: int) -> int:
    """How many pages of a file are in the page cache.

    To ask for its bytes with RWF_NOWAIT would tell, too, but has the kernel read them.
    """
    size = os.fstat(descriptor).st_size
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    with mmap.mmap(descriptor, size) as mapped:
        place = ctypes.c_char.from_buffer(mapped)
        answered = _libc.mincore(ctypes.byref(place), ctypes.c_size_t(size), pages)
        del place
    if answered != 0:
        pytest.skip(f"mincore: {os.strerror(ctypes.get_errno())}")
    return sum(one & 1 for one in pages)
