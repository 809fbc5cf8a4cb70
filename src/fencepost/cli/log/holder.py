"""Which process uses a log directory, asked without getting in its way.

A broker of Fencepost or of Apache Kafka holds a record lock on `.lock` as long as it runs. Linux
tells who holds one without taking it (fcntl's F_GETLK); elsewhere nobody is asked.
"""

from __future__ import annotations

import errno
import os
import struct
import sys

from fencepost.log.disk import open_regular
from fencepost.log.names import LOCK_FILE

# struct flock on 64-bit Linux: type, whence, start, length, process id
_FLOCK = struct.Struct("hh4xqqi4x")


def holder_of(directory: str) -> int | None:
    """The process that has the directory; None if none has, or it cannot be told. OSError."""
    if not sys.platform.startswith("linux") or sys.maxsize <= 1 << 32:
        return None
    import fcntl

    try:
        descriptor = open_regular(os.path.join(directory, LOCK_FILE), os.O_RDONLY)
    except (FileNotFoundError, IsADirectoryError):
        return None
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENXIO):
            raise
        return None  # a pipe, a socket, a device: nobody's lock
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else pid
