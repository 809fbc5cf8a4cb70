"""Making a log durable: a job that one thread makes and finishes, and another may run.

A job holds everything that has to reach the disk before the recovery point may move to its
`end_offset`: segment files with new data, the files of segments that were closed, the leader-epoch
file, and directories whose names changed. The order among these does not matter, since nothing is
promised before all of it is done.

A job is never repeated. If it fails, so has the log: after a failed fsync the kernel may have
dropped the pages, and a second one that succeeds proves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.log.disk import ClosedFileError, Disk, File
from fencepost.log.segment import Segment

if TYPE_CHECKING:
    from fencepost.log.durability import Durability


def sync_path(disk: Disk, path: str) -> None:
    """Make the content of a closed file durable. OSError."""
    file = disk.open(path)
    try:
        file.sync()
    finally:
        file.close()


class FlushJob:
    """Work for the disk that makes a log durable up to `end_offset`.

    Made by `Durability.begin`. `run` may be called on any thread, everything else belongs to the
    log's owner. `end_offset` sinks if the log is cut meanwhile.
    """

    __slots__ = (
        "_owner",
        "directories",
        "end_offset",
        "epochs",
        "files",
        "marks",
        "names_changed",
        "new_files",
    )

    def __init__(self, owner: Durability, end_offset: int) -> None:
        self._owner = owner
        self.end_offset = end_offset
        self.files: list[tuple[Segment | None, File]] = []
        self.marks: list[tuple[Segment, int]] = []
        self.epochs: tuple[int, int, bytes] | None = None
        """Of the leader-epoch file: whose turn it is, the cache's version, the content."""
        self.new_files: list[str] = []
        self.directories: list[str] = []
        self.names_changed = 0

    def run(self) -> None:
        """Do it. OSError, after which the log has failed; LogFailedError if it had before."""
        owner = self._owner
        owner.health.check()
        try:
            for segment, file in self.files:
                self._sync(segment, file)
            for path in self.new_files:
                sync_path(owner.disk, path)
            if self.epochs is not None:
                owner.write_epochs(self.epochs[0], self.epochs[2])
            for directory in self.directories:
                owner.disk.sync_dir(directory)
        except OSError as error:
            owner.health.fail(f"a flush failed: {error}")
            raise

    def _sync(self, segment: Segment | None, file: File) -> None:
        if segment is not None and segment.sync_failure is not None:
            raise segment.sync_failure
        try:
            file.sync()
        except ClosedFileError:
            # A segment that was deleted meanwhile need not be durable; one whose file was closed
            # because there were too many is it.
            if segment is None or not (segment.is_retired or self._is_settled(segment)):
                raise

    def _is_settled(self, segment: Segment) -> bool:
        return all(segment.synced_bytes >= size for one, size in self.marks if one is segment)
