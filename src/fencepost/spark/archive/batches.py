"""A micro-batch into an archive's files, once, whatever dies in between.

`foreachBatch` hands over a batch and its number. The tasks that read it write files to staging, one
for each date (`source`); the driver looks at each file, and replaces `state.json`, which names the
batch, its files and their places. That is the decision (`state`). Then the files
are moved into place, by this run or, if it is killed, by the next.

Why not Spark's own file sink: it keeps what counts in `_spark_metadata`, and readers that do not
know that log also read what failed attempts left behind. Here a file is in a table's directory only
if it counts, so every reader that lists directories sees every record once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.arrow.archive.layout import (
    STAGING,
    ArchiveError,
    DataFile,
    Layout,
    file_name,
    tag_of,
)
from fencepost.arrow.archive.state import (
    Ranges,
    State,
    checkpoint_location,
    checkpoint_of,
    read_state,
    update_state,
)
from fencepost.arrow.checkpoint import read_checkpoint
from fencepost.arrow.storage import Storage
from fencepost.client.metadata import TopicPartition


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch added."""

    batch: int
    rows: int
    data_bytes: int
    """Of the columns before compression."""
    file_bytes: int
    files: int
    read: Mapping[TopicPartition, tuple[int, int]]
    """Which offsets were read, without their ends."""


def archive_batch(
    layout: Layout, batch: int, place: str, write: Callable[[], Sequence[str]]
) -> Written | None:
    """Archive a batch, which `write` writes to `place`, unless it is there; None then.

    `place` is a directory of the storage's STAGING, which this query has for itself; `write`
    returns the paths of the batch's files. What else is there is removed.

    ArchiveError, CheckpointError, OSError.
    """
    if not _is_next(layout, read_state(layout), batch):
        return None
    paths = write()
    ranges, topic_ids, query = _what_was_read(layout, read_state(layout), batch)
    staged = [_look_at(layout.storage, path, place) for path in sorted(paths)]
    moves = []
    for one in staged:
        name = file_name(
            one.partition, one.first, one.last, tag_of(topic_ids.get(one.topic)), f"b{batch:08}"
        )
        moves.append((one.path.removeprefix(f"{STAGING}/"), f"{one.directory}/{name}"))
    read = _with_starts(ranges, staged)
    done = False

    def add(state: State) -> State:
        nonlocal done
        done = _is_next(layout, state, batch)
        if not done:
            return state
        return state.with_batch(batch, query, moves, read, _records(staged), topic_ids)

    update_state(layout, add)
    layout.storage.delete_all(place)
    if not done:
        return None
    return Written(
        batch,
        sum(one.rows for one in staged),
        sum(one.data_bytes for one in staged),
        sum(one.file_bytes for one in staged),
        len(staged),
        read,
    )


def _is_next(layout: Layout, state: State, batch: int) -> bool:
    """Whether this batch is to be written: it is the one behind the last. ArchiveError for one
    that can be neither that nor the last."""
    if batch == state.batch:
        _require_same(layout, state, batch)
        return False
    if batch != state.batch + 1:
        raise ArchiveError(
            f"{layout}: Spark runs batch {batch}, and the last one archived is "
            f"{state.batch}: the checkpoint in {checkpoint_location(layout, state)} is not that "
            "of this archive, or of another time"
        )
    return True


def _require_same(layout: Layout, state: State, batch: int) -> None:
    """ArchiveError unless all that a batch reads was read, so that it may be skipped. Two drivers
    that begin at once may plan different ends for one batch, where the checkpoint's file system
    does not keep the second from it."""
    ranges, topic_ids, _ = _what_was_read(layout, state, batch)
    known = {(one.topic, one.topic_id): one.partitions for one in state.incarnations}
    for where, (start, end) in ranges.items():
        found = known.get((where.topic, topic_ids.get(where.topic, "")), {})
        if not _is_covered(found.get(where.partition, []), start, end):
            raise ArchiveError(
                f"{layout}: batch {batch} is archived, but without all offsets of {where} up to "
                f"{end}, which this driver reads: another one archives at the same time"
            )


def _is_covered(read: Ranges, start: int | None, end: int) -> bool:
    first = end - 1 if start is None else start
    return first >= end or first < 0 or any(low <= first and end <= high for low, high in read)


def _what_was_read(
    layout: Layout, state: State, batch: int
) -> tuple[dict[TopicPartition, tuple[int | None, int]], Mapping[str, str], str]:
    """Where Spark's checkpoint says that a batch begins and ends, ids of topics, and the query."""
    checkpoint = read_checkpoint(checkpoint_of(layout, state))
    source = checkpoint.sources[0] if checkpoint.sources else None
    if checkpoint.planned_batch != batch or source is None or source.planned is None:
        raise ArchiveError(
            f"{checkpoint_location(layout, state)}: batch {batch} runs, but planned is "
            f"{checkpoint.planned_batch}"
        )
    begins = source.committed.positions if source.committed else {}
    ranges: dict[TopicPartition, tuple[int | None, int]] = {}
    for where, end in source.planned.positions.items():
        before = begins[where].offset if where in begins else None
        ranges[where] = (source.planned.begins.get(where, before), end.offset)
    return ranges, source.planned.topic_ids, checkpoint.query_id or ""


def _records(staged: Sequence[_Staged]) -> dict[TopicPartition, int]:
    counts: dict[TopicPartition, int] = {}
    for one in staged:
        where = TopicPartition(one.topic, one.partition)
        counts[where] = counts.get(where, 0) + one.rows
    return counts


@dataclass(frozen=True, slots=True)
class _Staged:
    """A file that a task wrote."""

    topic: str
    directory: str
    """Of its date, from the archive's directory."""
    path: str
    partition: int
    first: int
    last: int
    rows: int
    data_bytes: int
    file_bytes: int


def _look_at(storage: Storage, path: str, place: str) -> _Staged:
    """What is in a file. ArchiveError unless it has one partition's records in order."""
    directory = path.removeprefix(f"{place}/").rpartition("/")[0]
    topic = directory.partition("/")[0].removeprefix("topic=")
    size = storage.size(path)
    with DataFile(topic, "", 0, "", 0, 0, path, storage).opened() as file:
        table = file.read(["partition", "offset"])
        metadata = file.metadata
    offsets = offsets_of(table, path)
    partitions = np.unique(table.column("partition").to_numpy())
    if len(partitions) != 1:
        raise ArchiveError(f"{path}: has records of {len(partitions)} partitions")
    sizes = [metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)]
    return _Staged(
        topic=topic,
        directory=directory,
        path=path,
        partition=int(partitions[0]),
        first=int(offsets[0]),
        last=int(offsets[-1]),
        rows=len(offsets),
        data_bytes=sum(sizes),
        file_bytes=size,
    )


def offsets_of(table: pa.Table, path: str) -> np.ndarray[Any, Any]:
    """The offsets of a file, which rise from row to row. ArchiveError."""
    offsets = table.column("offset").to_numpy()
    if len(offsets) == 0 or (np.diff(offsets) <= 0).any():
        raise ArchiveError(f"{path}: has no records, or not in order of their offsets")
    return np.asarray(offsets, np.int64)


def _with_starts(
    read: Mapping[TopicPartition, tuple[int | None, int]], staged: Sequence[_Staged]
) -> dict[TopicPartition, tuple[int, int]]:
    """Ranges with a start each: the first batch's, of which Spark keeps no start, begin with their
    first record."""
    firsts: dict[TopicPartition, int] = {}
    for one in staged:
        where = TopicPartition(one.topic, one.partition)
        firsts[where] = min(one.first, firsts.get(where, one.first))
    return {
        where: (firsts.get(where, end) if start is None else start, end)
        for where, (start, end) in read.items()
    }
