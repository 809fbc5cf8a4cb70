"""Files whose pages are not in the page cache."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

PATIENCE_S = 5


def make_cold(path: Path) -> None:
    """Have the kernel forget the pages of a file; the test is skipped where that cannot be had."""
    if not hasattr(os, "RWF_NOWAIT"):
        pytest.skip("this system does not tell what is in the page cache")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            try:
                os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
            except BlockingIOError:
                return
            except OSError as error:
                pytest.skip(f"this file system does not tell what is in the page cache: {error}")
    finally:
        os.close(descriptor)
    pytest.skip("this file system does not give pages up")
