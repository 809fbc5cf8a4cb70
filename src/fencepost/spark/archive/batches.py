"""A micro-batch into an archive's files, once, whatever dies in between.

`foreachBatch` hands over a batch and its number. Its rows are written to staging by Spark's tasks,
a file per task and date; the driver looks at each file, fsyncs it, and replaces `state.json`, which
names the batch, its files and their places. That is the decision (`state`). Then the files are
renamed into place, by this run or, if it is killed, by the next.

Why not Spark's own file sink: it keeps what counts in `_spark_metadata`, and readers that do not
know that log also read what failed attempts left behind. Here a file is in a table's directory only
if it counts, so every reader that lists directories sees every record once.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.client.metadata import TopicPartition
from fencepost.spark.archive.layout import (
    ArchiveError,
    Layout,
    file_name,
    for_spark,
    sync,
    tag_of,
)
from fencepost.spark.archive.state import State, finish_moves, read_state, write_state
from fencepost.spark.checkpoint import read_checkpoint

DATE: Final = (
    "date_from_unix_date(cast((unix_micros(timestamp) - pmod(unix_micros(timestamp), 86400000000))"
    " div 86400000000 as int))"
)
"""The date of a record's timestamp in UTC, whatever the session's time zone is."""
COLUMNS: Final = (
    "key", "value", "headers", "partition", "offset", "timestamp", "timestampType", "date",
)  # fmt: skip


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


def archive_batch(layout: Layout, batch: int, write: Callable[[Path], None]) -> Written | None:
    """Archive a batch, which `write` writes to a directory, unless it is there; None then.

    ArchiveError, CheckpointError, OSError.
    """
    if not _is_next(layout, batch):
        return None
    place = layout.staging / f"{batch}-{secrets.token_hex(4)}"
    write(place)
    ranges, topic_ids, query = _what_was_read(layout, batch)
    staged = [_look_at(path, place) for path in sorted(place.rglob("*.parquet"))]
    moves = []
    for one in staged:
        sync(one.path)
        target = one.directory / file_name(
            one.partition, one.first, one.last, tag_of(topic_ids.get(one.topic)), f"b{batch:08}"
        )
        moves.append((str(one.path.relative_to(layout.staging)), str(target)))
    read = _with_starts(ranges, staged)
    with layout.lock("layout", wait=True):
        if not _is_next(layout, batch):
            return None
        state = read_state(layout).with_batch(
            batch, query, moves, read, _records(staged), topic_ids
        )
        write_state(layout, state)
        finish_moves(layout, state)
    size = sum((layout.directory / target).stat().st_size for _, target in moves)
    shutil.rmtree(place, ignore_errors=True)
    return Written(
        batch,
        sum(one.rows for one in staged),
        sum(one.data_bytes for one in staged),
        size,
        len(staged),
        read,
    )


def recover(layout: Layout) -> State:
    """Put right what a run that was killed left: the files of its last batch go where they belong.
    To be called by who has the lock `layout`. ArchiveError, OSError."""
    state = read_state(layout)
    finish_moves(layout, state)
    return state


def _is_next(layout: Layout, batch: int) -> bool:
    """Whether this batch is to be written: it is the one behind the last. ArchiveError for one
    that can be neither that nor the last."""
    state = read_state(layout)
    if batch == state.batch:
        return False
    if batch != state.batch + 1:
        raise ArchiveError(
            f"{layout.directory}: Spark runs batch {batch}, and the last one archived is "
            f"{state.batch}: the checkpoint in {layout.checkpoint} is not that of this archive, "
            "or of another time"
        )
    return True


def write_frame(frame: Any, place: Path) -> None:
    """Have Spark's tasks write a batch: a file per task and date, in order of offsets."""
    from pyspark.sql import functions as F  # noqa: N812

    session = frame.sparkSession
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    # A name that may be null would be replaced, and the rows sorted again, by Spark's writer.
    topic = F.coalesce(F.col("topic"), F.lit(""))
    rows = frame.withColumn("date", F.expr(DATE)).select(topic.alias("topic"), *COLUMNS)
    (
        rows.sortWithinPartitions("topic", "date", "partition", "offset")
        .write.mode("overwrite")
        .option("compression", "zstd")
        .partitionBy("topic", "date")
        .parquet(for_spark(place))
    )


def _what_was_read(
    layout: Layout, batch: int
) -> tuple[dict[TopicPartition, tuple[int | None, int]], Mapping[str, str], str]:
    """Where Spark's checkpoint says that a batch begins and ends, ids of topics, and the query."""
    checkpoint = read_checkpoint(layout.checkpoint)
    source = checkpoint.sources[0] if checkpoint.sources else None
    if checkpoint.planned_batch != batch or source is None or source.planned is None:
        raise ArchiveError(
            f"{layout.checkpoint}: batch {batch} runs, but planned is {checkpoint.planned_batch}"
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
    directory: Path
    """Of its date, from the archive's directory."""
    path: Path
    partition: int
    first: int
    last: int
    rows: int
    data_bytes: int


def _look_at(path: Path, place: Path) -> _Staged:
    """What is in a file. ArchiveError unless it has one partition's records in order."""
    table = pq.read_table(path, columns=["partition", "offset"], partitioning=None)
    offsets = offsets_of(table, path)
    partitions = np.unique(table.column("partition").to_numpy())
    if len(partitions) != 1:
        raise ArchiveError(f"{path}: has records of {len(partitions)} partitions")
    relative = path.relative_to(place).parent
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)]
    return _Staged(
        topic=relative.parts[0].removeprefix("topic="),
        directory=relative,
        path=path,
        partition=int(partitions[0]),
        first=int(offsets[0]),
        last=int(offsets[-1]),
        rows=len(offsets),
        data_bytes=sum(sizes),
    )


def offsets_of(table: pa.Table, path: Path) -> np.ndarray[Any, Any]:
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
