"""What an interrupted deletion or compaction has left in a partition's directory, settled.

A compaction writes `.cleaned` files, renames them to `.swap` when they are whole and synced,
renames what they replace to `.deleted`, and then drops the `.swap`. Wherever it was stopped, the
directory is brought to one side or the other:

| found                       | means                               | done                         |
|-----------------------------|-------------------------------------|------------------------------|
| `.deleted`                  | a deletion that took place          | removed                      |
| `.cleaned`                  | an unfinished compaction            | removed                      |
| `.swap`                     | a finished one: the new files count | what they replace is removed |
|                             |                                     | and they get their names     |
| `.swap` at or behind a      | an unfinished split of a segment    | removed                      |
| `.cleaned`                  |                                     |                              |
| `.tmp`                      | a file that was being replaced      | removed                      |
| an index without its `.log` | a deletion that got half-way        | removed                      |

Snapshots of the metadata log (`<offset>-<epoch>.checkpoint`) are not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fencepost.log.disk import Disk
from fencepost.log.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    parse_offset_file,
)

_UNFINISHED = frozenset({DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX})
_UNFINISHED_NAMES = frozenset(
    {LEADER_EPOCH_FILE + TEMPORARY_SUFFIX, PARTITION_METADATA_FILE + TEMPORARY_SUFFIX}
)


@dataclass(slots=True)
class FoundFiles:
    """What there is once everything is settled."""

    base_offsets: list[int] = field(default_factory=list)
    """Of the segments, in order."""
    snapshots: set[int] = field(default_factory=set)
    """Offsets of producer snapshots."""


def settle(disk: Disk, directory: str, end_of_segment: Callable[[str, int], int]) -> FoundFiles:
    """Settle what is unfinished and say what there is. OSError.

    `end_of_segment(path, base_offset)` is the offset behind the last record of a segment file.
    """
    _finish_swaps(disk, directory, _remove_unfinished(disk, directory), end_of_segment)
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
            disk.unlink(f"{directory}/{name}")
    return found


def _remove_unfinished(disk: Disk, directory: str) -> list[str]:
    """Remove what never took effect; the `.swap` files that do."""
    swaps: list[tuple[int, str]] = []
    cleaned: list[int] = []
    for name in disk.list(directory):
        parsed = parse_offset_file(name)
        stage = "" if parsed is None else parsed[2]
        if parsed is not None and stage == SWAP_SUFFIX:
            swaps.append((parsed[0], name))
            continue
        if parsed is not None and stage == CLEANED_SUFFIX:
            cleaned.append(parsed[0])
        if stage in _UNFINISHED or name in _UNFINISHED_NAMES:
            disk.unlink(f"{directory}/{name}")
    kept = []
    for offset, name in swaps:
        if cleaned and offset >= min(cleaned):
            disk.unlink(f"{directory}/{name}")
        else:
            kept.append(name)
    return kept


def _finish_swaps(
    disk: Disk, directory: str, names: list[str], end_of_segment: Callable[[str, int], int]
) -> None:
    if not names:
        return
    replaced: list[tuple[int, int]] = []
    for name in names:
        parsed = parse_offset_file(name)
        if parsed is not None and parsed[1] == LOG_SUFFIX:
            replaced.append((parsed[0], end_of_segment(f"{directory}/{name}", parsed[0])))
    for name in disk.list(directory):
        parsed = parse_offset_file(name)
        if parsed is None or parsed[2] or parsed[1] not in SEGMENT_SUFFIXES:
            continue
        if any(first <= parsed[0] < end for first, end in replaced):
            disk.unlink(f"{directory}/{name}")
    disk.sync_dir(directory)  # the old ones must be gone before the new ones have their names
    for name in names:
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    disk.sync_dir(directory)
