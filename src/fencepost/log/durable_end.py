"""How far one log is durable, to the last flush: a few bytes in a file of their own.

Theory of operation
-------------------
`recovery-point-offset-checkpoint` is written now and then, for all logs at once. What a log made
durable since then looks the same at the next start, if it is corrupt, as what a crash has torn: it
is cut off, in silence. For most logs that is a matter of this node and its data. A Raft voter must
know better: others have counted the records that it said to hold.

So the offset is written down after each flush of such a log, into the page cache: that costs
microseconds, outlives the process, and reaches the disk with one flush of the log in `SYNC_EVERY`,
or when the system writes its cache back. It is never ahead of the truth: it is written when the
flush is done, and lowered, durably, before the log is cut below it.

That there is a file with anything in it also says that there was a log. It is written for the first
time when the log's directory is durable and nothing has been promised yet, and stands outside of
that directory: so a log that was deleted is not taken for one that has never been.

The content is `durable <20 digits> crc32c <8 hex digits>` and a newline. What cannot be read says
that there was a log, and no more. It stands in the log directory, where Kafka does not look, as
`<topic>-<partition>.durable-end`.
"""

from __future__ import annotations

import logging
import re
from typing import Final

from fencepost.batch.crc import crc32c
from fencepost.log.disk import Disk, File
from fencepost.log.errors import CorruptFileError

log = logging.getLogger(__name__)

SYNC_EVERY: Final = 32
"""Flushes of the log until the file is synced with one."""

_CONTENT: Final = rb"(durable ([0-9]{20})) crc32c ([0-9a-f]{8})\n"
_CONTENT_BYTES_MAX: Final = 4096


class DurableEnd:
    """The file at `path`; one thread, but for the sync of `file`."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Read what is there. OSError."""
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self._noted = 0
        self._offset: int | None = None
        try:
            data = disk.read(path, _CONTENT_BYTES_MAX)
            self._offset = decode_durable_end(path, data) if data else None
        except FileNotFoundError:
            pass
        except CorruptFileError as error:
            log.warning("cannot read up to which offset the log was flushed: %s", error)
            self._offset = 0

    @property
    def is_there(self) -> bool:
        """Whether there was a log."""
        return self._offset is not None

    @property
    def offset(self) -> int:
        """Everything below was durable; 0 if that is not known."""
        return self._offset or 0

    def begin(self) -> None:
        """Have the file be there, durably, and keep it open; the log's directory is. OSError."""
        self._file = self._disk.open(self._path, create=True)
        if self._offset is None:
            self._file.write_at(encode_durable_end(0), 0)
            self._file.sync()
            self._disk.sync_dir(self._path.rpartition("/")[0] or "/")
            self._offset = 0

    def note(self, offset: int) -> None:
        """The log is durable up to there; in the page cache when this returns."""
        if self._file is None or offset <= self.offset:
            return
        try:
            self._file.write_at(encode_durable_end(offset), 0)
            self._offset = offset
        except OSError as error:  # what it says is still so
            log.warning("cannot update %s: %s", self._path, error)
            self.close()

    def lower(self, offset: int) -> None:
        """Have the file say no more than `offset`, durably: the log is about to be cut. OSError."""
        if self.offset <= offset:
            return
        file = self._file or self._disk.open(self._path)
        try:
            file.write_at(encode_durable_end(offset), 0)
            file.sync()
            self._offset = offset
        finally:
            if file is not self._file:
                file.close()

    def file_to_sync(self) -> File | None:
        """The file, if it is to be synced with the flush that is being begun."""
        self._noted += 1
        return self._file if self._noted % SYNC_EVERY == 0 else None

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def encode_durable_end(offset: int) -> bytes:
    """The file's content."""
    said = b"durable %020d" % offset
    return said + b" crc32c %08x\n" % crc32c(said)


def decode_durable_end(path: str, data: bytes) -> int:
    """The offset in the content of the file at `path`. CorruptFileError."""
    found = re.fullmatch(_CONTENT, data)
    if found is None or int(found[3], 16) != crc32c(found[1]):
        raise CorruptFileError(path, "does not say how far a log is durable")
    return int(found[2])
