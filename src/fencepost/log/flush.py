"""Making a log durable: a job that one thread makes and finishes, and another may run.

A job holds everything that has to reach the disk before the recovery point may move to its
`end_offset`: segment files with new data, the files of segments that were closed, the leader-epoch
file, and directories whose names changed. The order among these does not matter, since nothing is
promised before all of it is done.

A job is never repeated. If it fails, so has the log: after a failed fsync the kernel may have
dropped the pages, and a second one that succeeds proves nothing.

Most jobs are to sync one open file and no more. Such a job can be handed over to threads that know
of descriptors alone (`hand_over`, `sync_threads`), instead of being run; `settle` is then given the
outcome. Until then a thread that syncs or closes one of the files waits for it (`OsFile.hold`), and
finds the log failed if the outcome is an error, exactly as if another thread had run the job.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from fencepost.log.disk import ClosedFileError, Disk, File, OsFile
from fencepost.log.health import Health
from fencepost.log.segment import Segment
from fencepost.log.sync_threads import TAKEN, SyncThreads


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
    log's owner. `write_epochs(turn, content)` replaces the leader-epoch file. `end_offset` sinks if
    the log is truncated meanwhile.
    """

    __slots__ = (
        "_disk",
        "_health",
        "_held",
        "_number",
        "_threads",
        "_write_epochs",
        "directories",
        "end_offset",
        "epochs",
        "files",
        "marks",
        "names_changed",
        "new_files",
    )

    def __init__(
        self,
        disk: Disk,
        health: Health,
        write_epochs: Callable[[int, bytes], None],
        end_offset: int,
    ) -> None:
        self._disk = disk
        self._health = health
        self._write_epochs = write_epochs
        self.end_offset = end_offset
        self.files: list[tuple[Segment | None, File]] = []
        self.marks: list[tuple[Segment, int]] = []
        self.epochs: tuple[int, int, bytes] | None = None
        """Of the leader-epoch file: whose turn it is, the cache's version, the content."""
        self.new_files: list[str] = []
        self.directories: list[str] = []
        self.names_changed = 0
        self._threads: SyncThreads | None = None
        """Who syncs the files, if it was handed over, and under which number."""
        self._number = 0
        self._held: list[OsFile] = []

    def hand_over(self, threads: SyncThreads, lane: int, number: int) -> bool:
        """Have `threads` do it, if syncing open files is all there is to do; whether they will.

        If so, `settle` is to be called with the outcome, and `run` is not.
        """
        if self.new_files or self.epochs is not None or self.directories or not self.files:
            return False
        if self._health.failure is not None or self._health.is_closed:
            return False
        descriptors: list[int] = []
        try:
            for segment, file in self.files:
                if type(file) is not OsFile or (segment is not None and segment.sync_failure):
                    return False
                descriptor = file.hold(self)
                if descriptor < 0:
                    return False
                self._held.append(file)
                descriptors.append(descriptor)
            with contextlib.suppress(OSError):  # no thread can be had
                threads.submit(lane, number, tuple(descriptors))
                self._threads, self._number = threads, number
            return self._threads is not None
        finally:
            if self._threads is None:
                self._release()

    def _release(self) -> None:
        """Let go of the files, each once, although several threads may come to do so."""
        with contextlib.suppress(IndexError):
            while True:
                self._held.pop().release()

    def settle(self, error: int) -> None:
        """What was handed over is done, with this errno or 0. OSError, after which the log has
        failed. The second time it only says so again. Any thread."""
        if not error:
            self._release()
            return
        failure = OSError(error, os.strerror(error))
        self._health.fail(f"a flush failed: {failure}")
        self._release()
        raise failure

    def wait(self) -> None:
        """Wait until what was handed over is done and the files are released; any thread."""
        if self._threads is None:
            return
        error = self._threads.wait(self._number)
        if error != TAKEN:
            with contextlib.suppress(OSError):  # the thread that handed it over gets the error, too
                self.settle(error)

    def run(self) -> None:
        """Do it. OSError, after which the log has failed; LogFailedError if it had before."""
        self._health.check()
        try:
            for segment, file in self.files:
                self._sync(segment, file)
            for path in self.new_files:
                sync_path(self._disk, path)
            if self.epochs is not None:
                self._write_epochs(self.epochs[0], self.epochs[2])
            for directory in self.directories:
                self._disk.sync_dir(directory)
        except OSError as error:
            self._health.fail(f"a flush failed: {error}")
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
