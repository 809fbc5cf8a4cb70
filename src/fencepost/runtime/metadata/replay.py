"""Reads what is committed of the metadata: a snapshot as an image, the log behind it as records.

One pass, in bulk: what makes an image of it (`machines.image.apply_records`) costs little more for
a hundred thousand records at once than for one at a time, and much less than for each by itself.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from fencepost.batch.header import BatchHeader
from fencepost.batch.records import read_batch
from fencepost.log.errors import CorruptFileError
from fencepost.log.partition_log import PartitionLog
from fencepost.log.snapshots import SnapshotHeader, SnapshotId, SnapshotReader, SnapshotStore
from fencepost.log.snapshots.reader import Readable
from fencepost.machines.effects import Buffer
from fencepost.machines.image import ClusterImage, ReplayError, apply_records
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import decode_record


class Replay:
    """The records of the log between two offsets; iterate once, then look at how far it came.

    If the newest snapshot ends behind `from_offset`, they are those behind the snapshot, since the
    log then need not have what lies between. It ends early behind the batch with which there are
    `max_bytes`; `is_cut` then. Damage ends it early, in front of the batch that cannot be read, and
    is told by `damage`; what was read until then is whole and sound. Iterating raises ReplayError,
    WireError and BatchError for records that are none of ours, and OSError.
    """

    def __init__(
        self,
        metadata_log: PartitionLog,
        store: SnapshotStore,
        from_offset: int,
        end_offset: int,
        max_bytes: int | None = None,
    ) -> None:
        self._log = metadata_log
        self._end_offset = end_offset
        self._max_bytes = max_bytes
        self.is_cut = False
        self.snapshot = newer_snapshot(store, from_offset)
        """Whose image these records are for; None: that of what lies below `from_offset`."""
        self.next_offset = from_offset
        self.epoch = 0
        self.timestamp_ms = -1
        self.log_bytes = 0
        self.damage: CorruptFileError | None = None
        if self.snapshot is not None:
            self.next_offset, self.epoch = self.snapshot
            self.timestamp_ms = store.timestamp_ms(self.snapshot) or -1

    def __iter__(self) -> Iterator[Message]:
        """All records, in order."""
        batches = self._log.read_all_batches(self.next_offset, self._end_offset)
        while True:
            try:
                header, batch = next(batches, (None, None))
            except CorruptFileError as error:
                self.damage = error
                return
            if header is None:
                return
            assert batch is not None, "a header comes with its batch"
            if header.base_offset > self.next_offset:
                self.damage = missing_batch(self._log, self.next_offset, header)
                return
            if not header.is_control:
                yield from batch_records(header, batch)
            self.next_offset = header.next_offset
            self.epoch = header.partition_leader_epoch
            self.timestamp_ms = header.max_timestamp
            self.log_bytes += header.size_bytes
            if self._max_bytes is not None and self.log_bytes >= self._max_bytes:
                self.is_cut = self.next_offset < self._end_offset
                return


def missing_batch(
    metadata_log: PartitionLog, expected: int, header: BatchHeader
) -> CorruptFileError:
    """A batch of the metadata log, in which there are no gaps, does not follow the one before."""
    reason = f"offset {expected} is missing: a batch at {header.base_offset} is in its place"
    return CorruptFileError(metadata_log.directory, reason)


def newer_snapshot(store: SnapshotStore, offset: int) -> SnapshotId | None:
    """The newest snapshot, if it ends behind `offset`."""
    latest = store.latest()
    return latest if latest is not None and latest.end_offset > offset else None


def load_snapshot(file: Readable, path: str) -> tuple[SnapshotHeader, ClusterImage]:
    """What a snapshot's file says, all of it: nothing is left that could be wrong later.

    Raises SnapshotError, ReplayError, WireError, BatchError, OSError.
    """
    reader = SnapshotReader(file, path)
    records = (record for header, batch in reader for record in batch_records(header, batch))
    with no_collections():
        return reader.header, apply_records(ClusterImage(), records)


def snapshot_records(file: Readable, path: str) -> Iterator[Message]:
    """The metadata records in a snapshot's file. SnapshotError, WireError, BatchError, OSError."""
    for header, batch in SnapshotReader(file, path):
        yield from batch_records(header, batch)


def batch_records(header: BatchHeader, batch: Buffer) -> Iterator[Message]:
    """The metadata records in a batch whose CRC holds. ReplayError, WireError, BatchError."""
    for record in read_batch(batch, 0, header):
        if record.value is None:
            raise ReplayError(f"the record at {record.offset} has no value")
        yield decode_record(record.value)


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Keep the garbage collector away while many objects are made that all stay.

    It would look at them again and again, which makes loading an image several times slower.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
