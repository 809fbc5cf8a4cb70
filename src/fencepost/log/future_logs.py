"""Copies of logs on their way to another log directory (KIP-113).

A copy lies in a directory of its own, `<topic>-<partition>.<unique>-future`, beside the partitions,
and is filled from the log that it is to replace until it ends where that one does. It is no more
than that: after a restart it is read through from its beginning, and filled further.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

from fencepost.batch.record_batch import iter_batches
from fencepost.log.checkpoints import TopicPartition
from fencepost.log.load_params import LoadLogParams
from fencepost.log.log_dir import LogDir
from fencepost.log.names import deleted_dir, future_dir
from fencepost.log.partition_log import PartitionLog
from fencepost.log.reading import ReadResult
from fencepost.log.segment_cache import SegmentCache

_FILES: Final = 4
"""Segment files that a copy may have open."""
_HEAD_BYTES: Final = 61
"""What tells a batch from others: its offset, epoch, CRC and timestamps."""


def open_future(
    log_dir: LogDir, source: PartitionLog, wall_ms: int, directory: str | None = None
) -> PartitionLog:
    """A copy of `source` in `log_dir`: a new one, or the one that is in `directory`.

    Raises InconsistentTopicIdError for a copy of another topic, CorruptFileError, OSError,
    ValueError if the topic's name is too long.
    """
    if directory is None:
        name = future_dir(source.topic, source.partition, uuid4().hex)
        directory = f"{log_dir.path}/{name}"
    return PartitionLog.open(
        log_dir.disk,
        directory,
        source.topic,
        source.partition,
        source.config,
        LoadLogParams(wall_ms=wall_ms, topic_id=source.topic_id),
        cache=SegmentCache(_FILES),
    )


def discard(log_dir: LogDir, key: TopicPartition, directory: str) -> None:
    """Have a copy that is not open removed with the deleted partitions. OSError."""
    log_dir.disk.rename(directory, f"{log_dir.path}/{deleted_dir(*key, uuid4().hex)}")
    log_dir.disk.sync_dir(log_dir.path)


class SourceUnreadableError(Exception):
    """The log that is copied cannot be read; `error` says why. Its copy is not to blame."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def _reading_source() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceUnreadableError(error) from error


class Copying:
    """A log and its copy, which is made to be what the log is, whatever happens to that meanwhile:
    it grows, is cut and filled again by other leaders, and loses its beginning.

    What raises OSError means the copy; of the log itself there is SourceUnreadableError.
    """

    def __init__(self, source: PartitionLog, copy: PartitionLog) -> None:
        self._source = source
        self.copy = copy
        self._cuts_seen = -1

    @property
    def is_complete(self) -> bool:
        """Whether the copy ends where the log does; to be asked when they are aligned."""
        return self.copy.end_offset >= self._source.end_offset

    def align(self) -> None:
        """Cut the copy to what it has in common with the log. CorruptFileError, OSError.

        Two logs with the same batch of one leader epoch at one offset are the same up to there.
        """
        source, copy = self._source, self.copy
        if self._cuts_seen != source.cuts:
            self._cuts_seen = source.cuts
            while copy.end_offset > copy.start_offset:
                last = copy.batch_start(copy.end_offset - 1)
                if self._has_same_at(last):
                    break
                copy.truncate_to(max(last, copy.start_offset))
        if copy.end_offset == copy.start_offset or copy.end_offset <= source.start_offset:
            at = source.start_offset
            if at < source.end_offset:
                with _reading_source():
                    at = source.batch_start(at)  # it may start in the midst of a batch
            if copy.end_offset != at:
                copy.truncate_fully_and_start_at(at)

    def _has_same_at(self, offset: int) -> bool:
        """Whether both logs have the same batch there."""
        head = _head_at(self.copy, offset)
        with _reading_source():
            return head is not None and head == _head_at(self._source, offset)

    def read_next(self, max_bytes: int) -> ReadResult:
        """What the copy lacks next, at least a batch if there is one. CorruptFileError, OSError."""
        source = self._source
        start = max(self.copy.end_offset, source.start_offset)
        with _reading_source():
            return source.read(start, max_bytes, source.end_offset, min_one_batch=True)

    def append(self, found: ReadResult, wall_ms: int) -> None:
        """Append what was read next. OSError."""
        buffers = found.buffers
        for batch in iter_batches(buffers[0] if len(buffers) == 1 else b"".join(buffers)):
            self.copy.append_as_follower(batch, wall_ms)

    def left_bytes(self, most: int) -> int:
        """How much is still to be copied, up to about `most`."""
        source = self._source
        start = max(self.copy.end_offset, source.start_offset)
        with _reading_source():
            return source.measure(start, most, source.end_offset)

    def finish(self) -> None:
        """Make a complete copy durable, with the log's start and all its epochs. OSError.

        An epoch in which nothing was written is in no batch.
        """
        source, copy = self._source, self.copy
        assert copy.end_offset == source.end_offset, "the copy is complete"
        copy.advance_start_offset(source.start_offset)
        latest, known = source.epochs.latest(), copy.epochs.latest_epoch()
        if latest is not None and (known is None or known < latest.epoch):
            copy.epochs.assign(latest.epoch, latest.start_offset)
        copy.flush()


def _head_at(log: PartitionLog, offset: int) -> bytes | None:
    """The head of the batch there; None if the log has none."""
    at = max(offset, log.start_offset)
    if at >= log.end_offset:
        return None
    found = log.read(at, 1, log.end_offset)
    return bytes(found.buffers[0][:_HEAD_BYTES]) if found.buffers else None
