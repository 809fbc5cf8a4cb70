"""One table of log errors and Kafka's codes, with a row for every error there is."""

from __future__ import annotations

import errno
import inspect

import pytest

from fencepost.batch.errors import BatchError, DecompressionError
from fencepost.log import errors
from fencepost.log.error_codes import LOG_ERRORS, error_code_of
from fencepost.wire.errors import ErrorCode

ROWS = [
    (errors.OffsetOutOfRange(7, 1, 5), ErrorCode.OFFSET_OUT_OF_RANGE),
    (errors.CorruptFileError("a.log", "garbage", 3), ErrorCode.CORRUPT_MESSAGE),
    (errors.DurableDataLostError("a.log", "missing"), ErrorCode.CORRUPT_MESSAGE),
    (BatchError(ErrorCode.INVALID_RECORD, "damaged"), ErrorCode.CORRUPT_MESSAGE),
    (DecompressionError(ErrorCode.MESSAGE_TOO_LARGE, "a bomb"), ErrorCode.CORRUPT_MESSAGE),
    (errors.InconsistentTopicIdError("another"), ErrorCode.INCONSISTENT_TOPIC_ID),
    (OSError(errno.EIO, "refuses"), ErrorCode.KAFKA_STORAGE_ERROR),
    (OSError(errno.EMFILE, "no descriptor"), ErrorCode.KAFKA_STORAGE_ERROR),
    (errors.LogFailedError("it has refused"), ErrorCode.KAFKA_STORAGE_ERROR),
    (errors.LogDirLockedError("another process"), ErrorCode.KAFKA_STORAGE_ERROR),
    (errors.UnexpectedOffsetError("backwards"), ErrorCode.UNKNOWN_SERVER_ERROR),
    (errors.LogDirNotFormattedError("new"), ErrorCode.UNKNOWN_SERVER_ERROR),
    (errors.LogError("anything else"), ErrorCode.UNKNOWN_SERVER_ERROR),
]


@pytest.mark.parametrize(("error", "code"), ROWS, ids=lambda it: type(it).__name__)
def test_every_log_error_has_one_code(error: Exception, code: ErrorCode) -> None:
    assert isinstance(error, LOG_ERRORS)
    assert error_code_of(error) is code


def test_no_log_error_is_without_a_row() -> None:
    named = {type(error) for error, _ in ROWS}
    kinds = {kind for _, kind in inspect.getmembers(errors, inspect.isclass)}
    assert {kind for kind in kinds if issubclass(kind, Exception)} <= named
