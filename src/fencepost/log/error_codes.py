"""Which of Kafka's error codes stands for what goes wrong with a log: one table for all handlers.

| what a log raises                                        | answer                    |
|----------------------------------------------------------|---------------------------|
| `OffsetOutOfRange`: outside of the log, or not any more  | 1 OFFSET_OUT_OF_RANGE     |
| `CorruptFileError`, `BatchError`: what it holds is       | 2 CORRUPT_MESSAGE         |
| corrupt, does not decompress, or is missing              |                           |
| `InconsistentTopicIdError`                               | 103 INCONSISTENT_TOPIC_ID |
| `OSError`: the disk refuses, now or before (`LogFailed`) | 56 KAFKA_STORAGE_ERROR    |
| any other `LogError`                                     | -1 UNKNOWN_SERVER_ERROR   |

As in Kafka, whose CorruptRecordException is the answer of Fetch and of ListOffsets, and whose
IOException becomes KafkaStorageException once the directory is offline. A consumer goes on asking
after 56, since another replica may lead soon; after 2 it tells its user.
"""

from __future__ import annotations

from typing import Final

from fencepost.batch.errors import BatchError
from fencepost.log.errors import (
    CorruptFileError,
    InconsistentTopicIdError,
    LogError,
    OffsetOutOfRange,
)
from fencepost.wire.errors import ErrorCode

LOG_ERRORS: Final = (LogError, BatchError, OSError)
"""Everything that a log raises and a client gets an error code for."""

_CODES: Final[tuple[tuple[type[Exception], ErrorCode], ...]] = (
    (OffsetOutOfRange, ErrorCode.OFFSET_OUT_OF_RANGE),
    (CorruptFileError, ErrorCode.CORRUPT_MESSAGE),
    (BatchError, ErrorCode.CORRUPT_MESSAGE),
    (InconsistentTopicIdError, ErrorCode.INCONSISTENT_TOPIC_ID),
    (OSError, ErrorCode.KAFKA_STORAGE_ERROR),
)


def error_code_of(error: LogError | BatchError | OSError) -> ErrorCode:
    """The error code of the response to a request that a log could not carry out."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR
