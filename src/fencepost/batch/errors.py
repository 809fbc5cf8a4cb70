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
        """The same error with the batch's base offset, which whoever raised it did not know."""
        self.offset = offset
        self.args = (self.code, self.message, offset)
        return self


class DecompressionError(BatchError):
    """A compressed block that is damaged, or that grows beyond what the reader allows."""
