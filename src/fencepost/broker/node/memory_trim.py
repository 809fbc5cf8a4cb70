"""Hands memory that was freed back to the operating system, where the C library would keep it.

After large requests glibc keeps what is freed for the next ones: up to 64 MiB at the end of its
heap, and everything in front of a block that is still in use, however small. So a burst would leave
a node large for good. `malloc_trim` gives whole free pages back wherever they are. It takes some
milliseconds, after a large burst some hundred, so it is called only when much more is free than
the last call left: in a busy node the same memory is freed and used again and again.

Other C libraries (musl, macOS) have no such function, and nothing is done.
"""

from __future__ import annotations

import ctypes
from typing import Final

TRIM_FROM_BYTES: Final = 32 * 1024 * 1024
"""So much more must be free than before."""


class _MallInfo(ctypes.Structure):
    """`struct mallinfo2`, in bytes but for the counts; `fordblks` is what is free."""

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
        self._known_bytes = 0  # what was freed before this was made counts
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
        free_bytes = self._free_bytes()
        if free_bytes - self._known_bytes < TRIM_FROM_BYTES:
            # What is in use again has its pages again, and will be free with them.
            self._known_bytes = min(self._known_bytes, free_bytes)
            return False
        self._malloc_trim(0)
        self._known_bytes = self._free_bytes()  # counts on, although the pages are gone
        return True

    def _free_bytes(self) -> int:
        assert self._mallinfo is not None
        return int(self._mallinfo().fordblks)
