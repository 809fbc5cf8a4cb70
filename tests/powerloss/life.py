"""The writer of the bare-log suite: a process that lives on a log directory and tells its parent.

Several partitions, each a `Story` (see `tests/log/story.py`), in one directory on the real file
system. Before the disk is touched the parent is told what the partition's model will be, and
afterwards that it is so: what the parent has been told of as durable counts as acknowledged.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import pickle
import random
import signal
import struct
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from fencepost.log.disk import Buffer, Disk, OsDisk, OsFile
from fencepost.log.errors import LogFailedError
from fencepost.log.flush import FlushJob
from fencepost.log.log_dir import LogDir
from fencepost.wire.types import Uuid

from ..log.helpers import NOW_MS
from ..log.story import CONFIG, Model, Story

TOPIC: Final = "t"
_LENGTH: Final = struct.Struct(">I")
_PR_SET_PDEATHSIG: Final = 1


@dataclass
class Known:
    """What the parent knows of a partition: what it was, and what it is about to be."""

    was: Model | None = None
    """None: there is no such partition."""
    will_be: Model | None = None
    topic_id: Uuid = field(default_factory=Uuid.random)
    trail: deque[str] = field(default_factory=lambda: deque(maxlen=40))
    """The last events that the process has reported, for the message of a failure."""


class Tale(Story):
    """One partition's story that reports."""

    def __init__(self, life: Life, index: int, known: Known, draw: random.Random) -> None:
        super().__init__(draw)
        self.life = life
        self.index = index
        self.topic_id = known.topic_id
        self.is_there = known.was is not None
        self.model = known.was.copy() if known.was is not None else Model()

    def announce(self) -> None:
        self.life.tell("will be", self.index, self.model if self.is_there else None, self.topic_id)

    def tell_done(self, acknowledged: int = 0) -> None:
        """It is so, and so many more records are durable."""
        model = self.model if self.is_there else None
        self.life.tell("is", self.index, model, self.topic_id, acknowledged)

    def step(self, operation: Callable[[], None]) -> None:
        flushes = operation in (self.flush, self.group_flush)
        durable_before = self.model.durable_end
        self.life.tell("begins", self.index, operation.__name__)
        super().step(operation)
        self.tell_done(self.model.durable_end - durable_before if flushes else 0)

    def run_beside(self, job: FlushJob, meanwhile: Callable[[], None]) -> None:
        """The flush runs on another thread, as the broker does it, if there may be threads."""
        if self.life.disk.sync_threads == 1:
            super().run_beside(job, meanwhile)
            return
        problems: list[OSError] = []

        def run() -> None:
            try:
                job.run()
            except OSError as error:
                problems.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            meanwhile()
        finally:
            thread.join()
        if problems:
            raise problems[0]


class Life:
    """A log directory's life, until the disk stops it."""

    def __init__(self, disk: Disk, path: str, known: list[Known], seed: int, out: BinaryIO) -> None:
        self.random = random.Random(seed)
        self.disk = disk
        self.path = path
        self.out = out
        self.tales = [Tale(self, index, at, self.random) for index, at in enumerate(known)]
        self.log_dir: LogDir
        self.is_open = False

    def tell(self, *event: Any) -> None:
        """Send an event to the parent."""
        data = pickle.dumps(event)
        self.out.write(_LENGTH.pack(len(data)) + data)
        self.out.flush()

    def start(self) -> None:
        """Open the directory and every partition in it."""
        self.log_dir = LogDir.open(self.disk, self.path)
        self.is_open = True
        for tale in self.tales:
            if tale.is_there:
                self._open(tale)
                tale.check_equal(tale.model)

    def _open(self, tale: Tale) -> None:
        tale.log = self.log_dir.create(TOPIC, tale.index, tale.topic_id, CONFIG, wall_ms=NOW_MS)

    def run(self, operations: int | None) -> None:
        """Live on, for ever or for so many operations; OSError when the disk refuses."""
        self.start()
        for _ in itertools.repeat(None) if operations is None else range(operations):
            tale = self.random.choice(self.tales)
            if not tale.is_there:
                self.create(tale)
                continue
            operations = (
                [tale.append] * 14
                + [tale.flush] * 2
                + [tale.group_flush] * 4
                + [tale.new_epoch] * 2
                + [tale.truncate, tale.advance, tale.retain, tale.delete_files, tale.roll]
                + [tale.start_over]
            )
            choice = self.random.randrange(len(operations) + 3)
            if choice < len(operations):
                tale.step(operations[choice])
            elif choice == len(operations):
                self.checkpoint()
            elif choice == len(operations) + 1:
                self.delete(tale)
            else:
                self.restart()

    def give_up(self) -> None:
        """The disk has refused: nothing that failed may be had by asking again."""
        if not self.is_open:
            return
        for log in self.log_dir.logs.values():
            if log.failure is not None:
                try:
                    log.flush()
                except LogFailedError:
                    continue
                raise AssertionError("a log that had failed has flushed")
        self.tell("closed", self._close_dir())

    def _close_dir(self) -> bool:
        try:
            self.log_dir.close()
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close everything in order and tell whether that was possible."""
        for tale in self.tales:
            if tale.is_there:
                tale.model.checkpointed_start = tale.model.start
                tale.announce()
        if not self._close_dir():
            self.tell("closed", False)
            return
        for tale in self.tales:
            if tale.is_there:
                tale.model.durable_end = tale.model.end
                tale.tell_done()
        self.tell("closed", True)

    # ---- what happens to the directory as a whole

    def checkpoint(self) -> None:
        there = [tale for tale in self.tales if tale.is_there]
        for tale in there:
            tale.model.note_checkpoint()
            tale.announce()
        marks = {(TOPIC, tale.index): tale.model.durable_end for tale in there}
        self.log_dir.checkpoint(marks)
        for tale in there:
            tale.tell_done()

    def restart(self) -> None:
        there = [tale for tale in self.tales if tale.is_there]
        for tale in there:
            tale.model.checkpointed_start = tale.model.start
            tale.announce()
        self.log_dir.close(high_watermarks={(TOPIC, tale.index): tale.model.end for tale in there})
        for tale in there:
            acknowledged = tale.model.end - tale.model.durable_end
            tale.model.durable_end = tale.model.end
            tale.tell_done(acknowledged)
        self.start()
        assert self.log_dir.was_clean

    def delete(self, tale: Tale) -> None:
        tale.is_there = False
        tale.announce()
        self.log_dir.delete(tale.log)
        tale.model = Model()
        tale.tell_done()

    def create(self, tale: Tale) -> None:
        tale.is_there, tale.topic_id, tale.model = True, Uuid.random(), Model()
        tale.announce()
        self._open(tale)
        tale.tell_done()


class OneThreadDisk(OsDisk):
    """For those who count: everything happens on one thread, in one order."""

    sync_threads = 1


# ---- disks that lie: the suite must find out


class LyingFile(OsFile):
    """A file whose `sync` does nothing."""

    def sync(self) -> None:
        """Say that it is done."""


class DataLiar(OsDisk):
    """Files are not synced, directories are."""

    def open(self, path: str, *, create: bool = False) -> OsFile:
        """See `Disk`."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return LyingFile(path, os.open(path, flags, 0o644))

    def write_atomic(self, path: str, data: Buffer, *, sync_directory: bool = True) -> None:
        """See `Disk`."""
        with open(path + ".tmp", "wb") as file:
            file.write(data)
        os.replace(path + ".tmp", path)
        if sync_directory:
            self.sync_dir(os.path.dirname(path))


class Liar(DataLiar):
    """Nothing is ever synced."""

    def sync_dir(self, path: str) -> None:
        """Say that it is done."""


# ---- the process


@contextlib.contextmanager
def living(
    disk: Disk, path: str, known: list[Known], seed: int, operations: int | None = None
) -> Iterator[tuple[int, BinaryIO]]:
    """A child process that lives on `path`: its id, and the pipe on which it tells.

    With `operations` it waits to be continued (SIGCONT), does so many, and closes everything. It is
    gone, one way or the other, when this ends.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.close(reading)
            if operations is not None:
                os.kill(os.getpid(), signal.SIGSTOP)
            _live(Life(disk, path, known, seed, os.fdopen(writing, "wb")), operations)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as told:
            yield pid, told
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _live(life: Life, operations: int | None) -> None:
    try:
        try:
            life.run(operations)
        except OSError as error:
            if operations is None:
                raise
            life.tell("refused", repr(error))
            life.give_up()
        else:
            life.close()
    except BaseException:  # noqa: BLE001 - whatever it is, the parent is to say so
        life.tell("failed", traceback.format_exc())


def events(told: BinaryIO) -> Iterator[tuple[Any, ...]]:
    """What the child tells, until it is gone; a message cut short was never told."""
    while len(head := told.read(_LENGTH.size)) == _LENGTH.size:
        (size,) = _LENGTH.unpack(head)
        data = told.read(size)
        if len(data) < size:
            return
        yield pickle.loads(data)
