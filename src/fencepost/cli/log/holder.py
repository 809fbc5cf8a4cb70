"""Which process uses a log directory, asked without getting in its way.

A broker of Fencepost or of Apache Kafka holds a record lock on `.lock` as long as it runs.
"""

from __future__ import annotations

import errno
import os

from fencepost.log.disk import open_regular
from fencepost.log.lock_holder import lock_holder
from fencepost.log.names import LOCK_FILE


def holder_of(directory: str) -> int | None:
    """The process that has the directory; None if none has, or it cannot be told. OSError."""
    try:
        descriptor = open_regular(os.path.join(directory, LOCK_FILE), os.O_RDONLY)
    except (FileNotFoundError, IsADirectoryError):
        return None
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENXIO):
            raise
        return None  # a pipe, a socket, a device: no node locks it
    try:
        return lock_holder(descriptor)
    finally:
        os.close(descriptor)
