"""Hands memory that was freed back to the operating system, where the C library would keep it.

After large requests glibc keeps what is freed for the next ones: up to 64 MiB at the end of its
heap, and everything in front of a block that is still in use, however small. So a burst would leave
a node large for good. `malloc_trim` gives whole free pages back wherever they are. It takes some
milliseconds, after a large burst some hundred, so it is called only when much became free, or much
more of what is free has pages, since the last call: in a busy node the same memory is freed and
used again and again.

How much is free says nothing about pages: memory that was handed back, used again and freed again
between two looks is as much as before, and has its pages again. Those show in the resident memory
that no allocation accounts for.

Other C libraries (musl, macOS) have no such function, and nothing is done.
"""

from __future__ import annotations

import ctypes
import resource
from typing import Final

TRIM_FROM_BYTES: Final = 32 * 1024 * 1024
"""So much more must be free than before, or of what is free have pages."""
PAGE_BYTES: Final = resource.getpagesize()


class _MallInfo(ctypes.Structure):
    """`struct mallinfo2`, in bytes but for the counts; `fordblks` is what is free, `uordblks` and
    `hblkhd` (mappings of their own) are in use."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


class MemoryTrim:
    """Watches how much the C library keeps free; see the module."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._mallinfo = getattr(library, "mallinfo2", None)  # since glibc 2.33
        self._malloc_trim = getattr(library, "malloc_trim", None)
        self._known_free_bytes = 0  # what was freed before this was made counts
        self._known_unused_bytes: int | None = None
        if self._mallinfo is not None:
            self._mallinfo.restype = _MallInfo

    @property
    def is_possible(self) -> bool:
        """Whether this C library can."""
        return self._mallinfo is not None and self._malloc_trim is not None

    def trim_if_due(self) -> bool:
        """Give back what is free if it has become much; whether that was so."""
        if self._mallinfo is None or self._malloc_trim is None:
            return False
        free_bytes, unused_bytes = self._measure()
        known_free_bytes, known_unused_bytes = self._known_free_bytes, self._known_unused_bytes
        if known_unused_bytes is None:
            known_unused_bytes = unused_bytes
        more_bytes = max(free_bytes - known_free_bytes, unused_bytes - known_unused_bytes)
        if min(free_bytes, more_bytes) < TRIM_FROM_BYTES:
            # What is in use again has its pages again, and will be free with them.
            self._known_free_bytes = min(known_free_bytes, free_bytes)
            self._known_unused_bytes = min(known_unused_bytes, unused_bytes)
            return False
        self._malloc_trim(0)
        self._known_free_bytes, self._known_unused_bytes = self._measure()
        return True

    def _measure(self) -> tuple[int, int]:
        """What is free, with pages and without, and what is resident, and not in use by malloc."""
        assert self._mallinfo is not None
        info = self._mallinfo()
        return int(info.fordblks), _anonymous_bytes() - int(info.uordblks) - int(info.hblkhd)


def _anonymous_bytes() -> int:
    """Resident memory of this process that is of no file; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            _, resident, shared, *_ = map(int, statm.read().split())
    except OSError:
        return 0
    return (resident - shared) * PAGE_BYTES
