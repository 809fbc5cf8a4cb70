"""What can go wrong with logs and their files.

Errors of the disk itself stay `OSError`: `LogFailedError` and `LogDirLockedError` are kinds of it,
because code that handles errors of the disk must handle them too. Everything else is a `LogError`.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from fencepost.batch.header import BatchHeader


def describe(error: Exception) -> str:
    """An unexpected error as text: such errors often say nothing without their type."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def in_words(error: Exception) -> str:
    """An error that was to be expected, as text: of the disk's, the path and what it refused."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


_ADVICE: Final = {
    ".lock is in use by ": "give another directory in --data-dir or `log.dirs`",
    os.strerror(errno.ENOSPC): "free some space on its file system and start the node again:"
    " nothing that was acknowledged is lost",
    os.strerror(errno.EDQUOT): "raise the quota or free some space, and start the node again:"
    " nothing that was acknowledged is lost",
    os.strerror(errno.EROFS): "find out why it was mounted read-only (dmesg), mount it for writing"
    " and start the node again",
    os.strerror(errno.EIO): "look for what the kernel says of the device (dmesg); the node checks"
    " its logs when it is started again",
}


def with_advice(reason: str) -> str:
    """What a disk refused, and what to do about it where that is known."""
    for said, advice in _ADVICE.items():
        if said in reason and advice not in reason:
            return f"{reason}; {advice}"
    return reason


def crc_mismatch(header: BatchHeader) -> str:
    """What is wrong with a batch whose bytes are not those that its CRC was made of."""
    return f"CRC mismatch in the batch at offset {header.base_offset}"


class LogError(Exception):
    """Base of errors that are not the disk's."""


class OffsetOutOfRange(LogError):
    """A read outside of [start offset, end offset] of the log."""

    def __init__(self, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(f"offset {offset} is not within {start_offset}..{end_offset}")
        self.offset = offset
        self.start_offset = start_offset
        self.end_offset = end_offset


class UnexpectedOffsetError(LogError):
    """Batches to be appended do not continue the log: their offsets overlap or run backwards."""


class CorruptFileError(LogError):
    """A file's content is not what its format allows, or fails its checksum.

    `position` is the byte where it was noticed, where that is known.
    """

    def __init__(self, path: str, reason: str, position: int | None = None) -> None:
        where = path if position is None else f"{path} at byte {position}"
        super().__init__(f"{where}: {reason}")
        self.path = path
        self.reason = reason
        self.position = position


class DurableDataLostError(CorruptFileError):
    """Records that had been made durable are gone or damaged.

    A crash cannot do that, so the log is not opened: the operator decides whether to restore it
    from another replica or to give the records up (`accept_loss=True`). `sound_end` is the offset
    below which everything is there and sound, where that is known.
    """

    def __init__(
        self,
        path: str,
        reason: str,
        position: int | None = None,
        *,
        sound_end: int | None = None,
    ) -> None:
        super().__init__(path, reason, position)
        self.sound_end = sound_end


class InconsistentTopicIdError(LogError):
    """A partition's directory belongs to another topic of the same name."""


class LogDirNotFormattedError(LogError):
    """A log directory has no meta.properties: it has never been formatted."""


class LogFailedError(OSError):
    """The disk has refused this log once; it stays offline until it is opened again."""


class LogDirLockedError(OSError):
    """Another process, or another part of this one, uses the log directory."""
