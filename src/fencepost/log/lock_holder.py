"""Which process holds the record lock on an open file, asked without taking it.

Linux says it (fcntl's F_GETLK); on other systems it is unknown.
"""

from __future__ import annotations

import struct
import sys

# struct flock on 64-bit Linux: type, whence, start, length, process id
_FLOCK = struct.Struct("hh4xqqi4x")
_SEEK_SET = 0


def lock_holder(descriptor: int) -> int | None:
    """The id of the process that holds a lock; None if none does, or it is unknown. OSError.

    It is not above 0 for a holder without an id here, such as one outside of this container.
    """
    if not sys.platform.startswith("linux") or sys.maxsize <= 1 << 32:
        return None
    import fcntl

    asked = _FLOCK.pack(fcntl.F_WRLCK, _SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else pid
