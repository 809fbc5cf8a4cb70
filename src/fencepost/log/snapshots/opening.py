"""The snapshots of a log at a start: what is of use, and a log that goes on from there.

1. Partial files and those that were about to be removed go.
2. The newest snapshot must be whole and sound. A sound one below it, or a log from 0 on, makes it
   dispensable: the same records are there once more. Then it is set aside (`.aside`) and the next
   one is looked at. If it is not, the log is not opened: restoring it is for the operator.
3. A log that starts behind 0 needs a snapshot that ends there or later (KAFKA-14240).
4. A crash between the taking over of a leader's snapshot and the emptying of the log leaves a log
   that ends before the snapshot, or whose end is of another epoch. What a snapshot holds is
   committed, so the log is emptied now, and starts where the snapshot ends.
5. Snapshots that end below the log's start go.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from fencepost.log.errors import CorruptFileError
from fencepost.log.partition_log import PartitionLog
from fencepost.log.snapshots.names import SnapshotFileKind, SnapshotId
from fencepost.log.snapshots.reader import SnapshotError, SnapshotReader, check_whole
from fencepost.log.snapshots.store import SnapshotStore, list_snapshots

log = logging.getLogger(__name__)

ASIDE_SUFFIX: Final = ".aside"


class SnapshotMissingError(CorruptFileError):
    """A log does not start at 0 and no snapshot stands for what is missing."""


def open_snapshots(partition_log: PartitionLog) -> SnapshotStore:
    """The snapshots next to an open log's segments, and the log made to fit the newest.

    Raises SnapshotMissingError, SnapshotError, OSError.
    """
    disk, directory = partition_log.disk, partition_log.directory
    found = list_snapshots(disk, directory)
    for kind in (SnapshotFileKind.PARTIAL, SnapshotFileKind.DELETED):
        for name, _ in found[kind]:
            disk.unlink(f"{directory}/{name}")
    start_offset = partition_log.start_offset
    store = SnapshotStore(disk, directory)
    _note_sound(store, sorted(one for _, one in found[SnapshotFileKind.WHOLE]), partition_log)
    latest = store.latest()
    if start_offset > 0 and (latest is None or latest.end_offset < start_offset):
        raise SnapshotMissingError(
            directory,
            f"the log starts at {start_offset} and the newest snapshot ends at"
            f" {'nowhere' if latest is None else latest.end_offset}: what stands before it is"
            " missing; restore the snapshot, or have the node start again with an empty directory",
        )
    if latest is not None:
        if not _is_in(latest, partition_log):
            log.warning("emptying %s: it lacks records that snapshot %s has", directory, latest)
            partition_log.truncate_fully_and_start_at(latest.end_offset)
        store.drop_before(start_offset)
    return store


def _is_in(snapshot_id: SnapshotId, partition_log: PartitionLog) -> bool:
    """Whether the log goes on from the snapshot, or has in it what the snapshot stands for."""
    end_offset, start_offset = snapshot_id.end_offset, partition_log.start_offset
    if end_offset == start_offset:
        return True
    return (
        start_offset < end_offset <= partition_log.end_offset
        and partition_log.epochs.epoch_at(end_offset - 1) == snapshot_id.epoch
    )


def _note_sound(
    store: SnapshotStore, ids: Sequence[SnapshotId], partition_log: PartitionLog
) -> None:
    """Have the store know those that are sound; the others are set aside if they can be."""
    start_offset = partition_log.start_offset
    is_first_start = partition_log.end_offset == 0  # the bootstrap snapshot is all there is
    for index in reversed(range(len(ids))):
        file = store.open(ids[index])
        try:
            is_newest = store.latest() is None
            path = store.path(ids[index])
            # The newest is the one that is read at once; that the others begin well will do.
            header = check_whole(file, path) if is_newest else SnapshotReader(file, path).header
            store.note(ids[index], header, file.size())
        except SnapshotError as error:
            below = ids[index - 1].end_offset if index > 0 else 0
            if is_newest and (start_offset > below or is_first_start):
                raise
            log.error("%s; renaming it: its records are in the log or in a newer snapshot", error)
            store.disk.rename(path, path + ASIDE_SUFFIX)
            store.disk.sync_dir(store.directory)
        finally:
            file.close()
