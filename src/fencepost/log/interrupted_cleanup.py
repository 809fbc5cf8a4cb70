"""What an interrupted deletion or compaction has left in a partition's directory, settled.

A compaction writes `.cleaned` files, renames them to `.swap` when they are whole and synced,
renames what they replace to `.deleted`, and then drops the `.swap`. Wherever it was stopped, the
directory is brought to one side or the other:

| found                       | means                               | done                         |
|-----------------------------|-------------------------------------|------------------------------|
| `.deleted`                  | a deletion that took place          | removed                      |
| `.cleaned`                  | an unfinished compaction            | removed                      |
| `.swap`                     | a finished one: the new files count | what they replace goes, and  |
|                             |                                     | they get their names         |
| `.swap` at or behind a      | an unfinished compaction            | removed; set aside if there  |
| `.cleaned`                  |                                     | is no segment of its name    |
| `.swap` that is no copy     | damage                              | set aside                    |
| `.tmp`                      | a file that was being replaced      | removed                      |
| an index without its `.log` | a deletion that got half-way        | removed                      |

A `.swap` replaces segments only if it is sound as a whole and every batch of it is one of theirs
(`swap_files`). Otherwise the segments count: those renamed to `.deleted` already get their
names back, and the `.swap` becomes `.swap.aside`, which the node does not read. What a `.swap`
replaces is unlinked only when that has its name for good.

Snapshots of the metadata log (`<offset>-<epoch>.checkpoint`) are not touched.
"""

from __future__ import annotations

import logging

from msgspec import Struct, field

from fencepost.log.disk import Disk
from fencepost.log.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    QUORUM_STATE_FILE,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TEMPORARY_SUFFIX,
    parse_offset_file,
)
from fencepost.log.swap_files import ReadSegment, settle_swap_files

log = logging.getLogger(__name__)

_UNFINISHED = frozenset({DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX})
_UNFINISHED_NAMES = frozenset(
    name + TEMPORARY_SUFFIX
    for name in (LEADER_EPOCH_FILE, PARTITION_METADATA_FILE, QUORUM_STATE_FILE)
)


class FoundFiles(Struct):
    """What there is once everything is settled."""

    base_offsets: list[int] = field(default_factory=list)
    """Of the segments, in order."""
    snapshots: set[int] = field(default_factory=set)
    """Offsets of producer snapshots."""


def settle(disk: Disk, directory: str, read_segment: ReadSegment) -> FoundFiles:
    """Settle what is unfinished and say what there is. OSError.

    `read_segment(path, base_offset)` gives position and header of a file's sound batches. Raises
    DurableDataLostError if there is neither a sound `.swap` nor what it was made of.
    """
    settle_swap_files(disk, directory, read_segment)
    _remove_unfinished(disk, directory)
    found = FoundFiles()
    indexes: list[tuple[int, str]] = []
    for name in disk.list(directory):
        parsed = parse_offset_file(name)
        if parsed is None or parsed[2]:
            continue
        offset, suffix, _ = parsed
        if suffix == LOG_SUFFIX:
            found.base_offsets.append(offset)
        elif suffix == SNAPSHOT_SUFFIX:
            found.snapshots.add(offset)
        elif suffix in SEGMENT_SUFFIXES:
            indexes.append((offset, name))
    present = set(found.base_offsets)
    for offset, name in indexes:
        if offset not in present:
            log.warning(
                "removing %s/%s: there is no segment with that base offset", directory, name
            )
            disk.unlink(f"{directory}/{name}")
    return found


def _remove_unfinished(disk: Disk, directory: str) -> None:
    """Remove what never took effect, or does not any more."""
    for name in disk.list(directory):
        parsed = parse_offset_file(name)
        stage = "" if parsed is None else parsed[2]
        if stage in _UNFINISHED or name in _UNFINISHED_NAMES:
            disk.unlink(f"{directory}/{name}")
