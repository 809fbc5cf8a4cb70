"""The one error of this package: bytes that are not the record batch they should be.

Every `BatchError` carries the code under which Kafka reports the same fault to a client, so that a
broker can answer with it and a reader can tell damage (`CORRUPT_MESSAGE`) from a batch it does not
support (`UNSUPPORTED_*`) or should not have been sent (`INVALID_*`).
"""

from __future__ import annotations

from typing import Self

from fencepost.wire.errors import ErrorCode


class BatchError(Exception):
    """A record batch, or a record in it, that cannot be accepted.

    `code` is Kafka's error code for it. `offset` is the base offset of the batch as its header
    gives it, or None where no header could be read.
    """

    def __init__(self, code: ErrorCode, message: str, offset: int | None = None) -> None:
        super().__init__(code, message, offset)
        self.code = code
        self.message = message
        self.offset = offset

    def __str__(self) -> str:
        where = "" if self.offset is None else f"batch at offset {self.offset}: "
        return f"{where}{self.message} ({self.code.name})"

    def at(self, offset: int) -> Self:
        """The same error with the batch's base offset, which was not known where it was raised."""
        self.offset = offset
        self.args = (self.code, self.message, offset)
        return self


class DecompressionError(BatchError):
    """A compressed block that is damaged, or that grows beyond what the reader allows."""


class RowTooLargeError(BatchError):
    """A row of columns that no batch may hold: its number, and `size_bytes`, Kafka's bound of it
    (`record_size`)."""

    def __init__(self, row: int, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"row {row} takes {size_bytes} bytes alone in a batch, {limit_bytes} are allowed",
        )
        self.row = row
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes

    def __reduce__(self) -> tuple[type[RowTooLargeError], tuple[int, int, int]]:
        return type(self), (self.row, self.size_bytes, self.limit_bytes)
