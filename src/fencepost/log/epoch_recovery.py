"""The leader epochs of a log that is being opened: from their file, checked against the batches.

The file is written with the flush that makes an epoch's records durable, so after a crash it may
lack the newest epochs, or have some whose records did not survive. It has no checksum; but the
batches carry their epochs, so what it says can be held against them: the batch in front of a
boundary must be of an older epoch, the batch behind it of that epoch. A file that is missing,
cannot be read or contradicts the log is made again from all batches (KAFKA-16541 and kin).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from fencepost.batch.header import BatchHeader
from fencepost.log.disk import Disk
from fencepost.log.epochs import EpochEntry, LeaderEpochCache
from fencepost.log.errors import CorruptFileError
from fencepost.log.segment import Segment

BOUNDARIES_CHECKED_MAX: Final = 512
"""Newest entries of the file that are compared with the log."""


class RecoveredEpochs(Struct, frozen=True):
    """The cache, whether it differs from the file, and whether it had to be made from the log."""

    cache: LeaderEpochCache
    differs_from_file: bool
    was_rebuilt: bool


def recover_epochs(
    disk: Disk,
    path: str,
    segments: Sequence[Segment],
    scanned: Iterable[EpochEntry],
    start_offset: int,
    end_offset: int,
) -> RecoveredEpochs:
    """The epochs of the log of `segments`, whose file is at `path`.

    `scanned` has the epochs of batches that recovery has read, where each was first met.
    CorruptFileError (the log), OSError.
    """
    stored = LeaderEpochCache()
    sound = True
    try:
        stored = LeaderEpochCache.decode(path, disk.read(path))
    except FileNotFoundError:
        sound = end_offset == start_offset
    except CorruptFileError:
        sound = False
    epochs = stored.copy()
    epochs.truncate_from_end(end_offset)
    for epoch, offset in scanned:
        if epochs.epoch_at(offset) != epoch:
            epochs.assign(epoch, offset)
    epochs.truncate_from_start(start_offset)
    if not sound or not _agree(epochs, segments, start_offset):
        epochs = _from_batches(segments, start_offset)
        return RecoveredEpochs(epochs, epochs != stored, True)
    return RecoveredEpochs(epochs, epochs != stored, False)


def _from_batches(segments: Sequence[Segment], start_offset: int) -> LeaderEpochCache:
    epochs = LeaderEpochCache()
    for header in _headers(segments):
        epoch = header.partition_leader_epoch
        if epoch >= 0 and header.last_offset >= start_offset:
            epochs.assign(epoch, max(header.base_offset, start_offset))
    return epochs


def _agree(epochs: LeaderEpochCache, segments: Sequence[Segment], start_offset: int) -> bool:
    newest = epochs.newest(BOUNDARIES_CHECKED_MAX)
    earliest = epochs.earliest()
    if earliest is None or earliest.start_offset > start_offset:
        # The first batches have no entry: right if they are of before there were epochs.
        headers = (header for header in _headers(segments) if header.last_offset >= start_offset)
        first = next(headers, None)
        if first is not None and first.partition_leader_epoch >= 0:
            return False
    last = _last_header(segments)
    latest = epochs.latest_epoch() or 0
    if last is not None and last.last_offset >= start_offset:
        newest_known = last.partition_leader_epoch <= latest
    else:
        newest_known = True
    return newest_known and all(
        _is_boundary(entry, epochs.previous_epoch(entry.epoch), segments, start_offset)
        for entry in newest
    )


def _last_header(segments: Sequence[Segment]) -> BatchHeader | None:
    for segment in reversed(segments):
        if segment.size_bytes:
            index = segment.index
            start = index.positions[-1] if index.positions else 0
            tail = deque(segment.headers(start, segment.size_bytes), maxlen=1)
            return tail[0][1] if tail else None
    return None


def _headers(segments: Sequence[Segment]) -> Iterator[BatchHeader]:
    for segment in segments:
        for _, header in segment.headers(0, segment.size_bytes):
            yield header


def _is_boundary(
    entry: EpochEntry, previous_epoch: int | None, segments: Sequence[Segment], start_offset: int
) -> bool:
    """Whether the batches on both sides of where the epoch begins are of the epochs they should.

    Compaction may have removed all batches of an epoch, so in front there may be an older one than
    the previous.
    """
    epoch, offset = entry
    before = offset - 1 if offset > start_offset else offset
    for segment in segments:
        if segment.next_offset <= before:
            continue
        start = segment.position_of(before)
        for _, header in segment.headers(start, segment.size_bytes):
            found = header.partition_leader_epoch
            if header.base_offset > offset:
                return found >= epoch
            if header.base_offset == offset:
                return found == epoch
            if header.last_offset >= offset:  # the log's start lies within this batch
                return found == epoch and offset == start_offset
            if found >= epoch or (previous_epoch is not None and found > previous_epoch):
                return False
    return True
