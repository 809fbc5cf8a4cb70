"""What a node does, and answers, when the log of a partition raises an error."""

from __future__ import annotations

import logging

from fencepost.batch.errors import BatchError
from fencepost.log.error_codes import error_code_of
from fencepost.log.errors import LogError, OffsetOutOfRange
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.wire.errors import ErrorCode

log = logging.getLogger(__name__)


def answer_log_error(
    replicas: ReplicaManager,
    hosted: HostedPartition,
    doing: str,
    error: LogError | BatchError | OSError,
) -> ErrorCode:
    """The code of `error`, which `doing` something with the partition's log has raised.

    A disk that refuses takes its directory offline; damage is logged, and the log is used on: the
    rest of it is sound.
    """
    if isinstance(error, OSError):
        replicas.storage_failed(hosted, f"{doing} {hosted.key}: {error}", error)
    elif not isinstance(error, OffsetOutOfRange):  # retention moves the start while clients read
        log.error("%s %s: %s", doing, hosted.key, error)
    return error_code_of(error)
