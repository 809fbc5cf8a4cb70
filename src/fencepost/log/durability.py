"""What of a log is durable, and what has to be done so that more of it is.

Theory of operation
-------------------
Besides the batches themselves there are names: of segments in the log's directory, of that in its
parent's, the leader-epoch file, and `partition.metadata` of a new log. Each has a mark here of how
far it is known to be durable; `begin` compares the marks with what is there now and makes a job of
the difference, `finish` moves them, and with them `recovery_point`.

A job never covers what was appended after `begin`, and what is cut off while it runs is taken out
of what it covers (`take_back`). Everything is the log's owner's, but for the leader-epoch file,
which a job replaces on its thread.
"""

from __future__ import annotations

import threading

from fencepost.log.disk import Disk
from fencepost.log.durable_end import DurableEnd
from fencepost.log.flush import FlushJob, sync_path
from fencepost.log.health import Health
from fencepost.log.loaded import LoadedLog
from fencepost.log.names import LEADER_EPOCH_FILE, PARTITION_METADATA_FILE


class Durability:
    """Of the log in `directory`; see the module docstring."""

    def __init__(self, disk: Disk, directory: str, health: Health, loaded: LoadedLog) -> None:
        self._disk = disk
        self._health = health
        self.directory = directory
        self._row = loaded.row
        self._row.names_changed = 1 if loaded.is_new else 0
        self._epochs = loaded.epochs
        self.recovery_point = loaded.recovery_point
        """Everything below is durable."""
        self.durable_end: DurableEnd | None = None
        """Where it is written down after each flush, of a log for which that is done."""
        self._jobs: list[FlushJob] = []
        self._names_synced = 0
        self._parent_synced = not loaded.is_new
        self._topic_id_synced = not loaded.topic_id_written
        self._epochs_seen = -1 if loaded.epochs_changed else self._epochs.version
        self._epochs_on_disk = b"" if loaded.epochs_changed else self._epochs.encode()
        self._epochs_begun = 0
        self._epochs_turn = 0
        self._epochs_lock = threading.Lock()

    # ---- flushing

    def begin(self, end_offset: int) -> FlushJob:
        """A job for everything below `end_offset`, the log's end. OSError (too many open files).

        Of a log that has failed, the job's `run` says so.
        """
        job = FlushJob(self._disk, self._health, self._write_epochs, end_offset)
        if self._health.failure is not None or self._health.is_closed:
            return job
        row = self._row
        for segment in reversed(row.segments):
            if segment.next_offset < self.recovery_point:
                break
            if segment.is_dirty:
                job.files.append((segment, segment.file))
                job.marks.append((segment, segment.size_bytes))
        job.files.extend(row.unsynced)
        if self._epochs_seen != self._epochs.version:
            version = self._version_of_file(end_offset)
            content = self._epochs.encode(end_offset)
            if content != self._epochs_on_disk:
                self._epochs_begun += 1
                job.epochs = self._epochs_begun, version, content
            else:
                self._epochs_seen = version
        if not self._topic_id_synced:
            job.new_files.append(f"{self.directory}/{PARTITION_METADATA_FILE}")
        job.names_changed = row.names_changed
        if self._names_synced != row.names_changed or job.epochs is not None:
            job.directories.append(self.directory)
        if not self._parent_synced:
            job.directories.append(self._parent)
        if job.files and self.durable_end is not None:
            file = self.durable_end.file_to_sync()
            if file is not None:
                job.files.append((None, file))
        self._jobs.append(job)
        return job

    def begin_last(self, end_offset: int) -> FlushJob | None:
        """The same before the log is closed; None if there is nothing that must be done. OSError.

        Names alone are nothing: what an empty log may lose is made again.
        """
        job = self.begin(end_offset)
        if job.files or job.epochs is not None:
            return job
        self._jobs.remove(job)
        return None

    def finish(self, job: FlushJob) -> None:
        """The job has run: what it covers is durable."""
        self._jobs.remove(job)
        self._row.note_synced(job.marks, [file for _, file in job.files])
        if job.epochs is not None:
            self._epochs_seen = max(self._epochs_seen, job.epochs[1])
        if job.new_files:
            self._topic_id_synced = True
        if job.directories:
            self._names_synced = max(self._names_synced, job.names_changed)
            self._parent_synced = True
        self.recovery_point = max(self.recovery_point, job.end_offset)
        if self.durable_end is not None:
            self.durable_end.note(self.recovery_point)

    def take_back(self, offset: int) -> None:
        """What lies from `offset` on is about to go; no checkpoint promises it any more."""
        self.recovery_point = min(self.recovery_point, offset)
        for job in self._jobs:
            job.end_offset = min(job.end_offset, offset)

    # ---- the leader-epoch file

    def _version_of_file(self, end_offset: int) -> int:
        """The version that a file written now would be of; -1 if an epoch is still to be added.

        An epoch without records is left out of the file, and belongs there with its first one.
        """
        is_whole = self._epochs.count_in_file(end_offset) == len(self._epochs)
        return self._epochs.version if is_whole else -1

    def _write_epochs(self, turn: int, content: bytes) -> None:
        """Replace the leader-epoch file, unless a later job has done so; any thread. OSError."""
        with self._epochs_lock:
            if turn > self._epochs_turn:
                path = f"{self.directory}/{LEADER_EPOCH_FILE}"
                self._disk.write_atomic(path, content, sync_directory=False)
                self._epochs_on_disk = content
                self._epochs_turn = turn

    # ---- names

    @property
    def _parent(self) -> str:
        return self.directory.rpartition("/")[0] or "/"

    def settle_names(self) -> None:
        """Make the names of segments durable, on the spot, if they are not. OSError."""
        if self._names_synced != self._row.names_changed:
            self.sync_names()

    def sync_names(self) -> None:
        """Make all names durable, on the spot. OSError."""
        if not self._topic_id_synced:
            sync_path(self._disk, f"{self.directory}/{PARTITION_METADATA_FILE}")
            self._topic_id_synced = True
        self._disk.sync_dir(self.directory)
        if not self._parent_synced:
            self._disk.sync_dir(self._parent)
            self._parent_synced = True
        self._names_synced = self._row.names_changed
