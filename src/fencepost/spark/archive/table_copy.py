"""A topic's records of a table, copied into files such as an archive in Parquet has.

Tables choose their files, and names for them, and mix partitions in a file. What replays records in
order needs files of one partition each, with rising offsets: so Spark sorts the table's rows by
partition and offset, and writes them, before the first is replayed. The sort also brings an offset
that is there twice next to itself, where it is found, within a file or between two.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from fencepost.arrow.archive.layout import ArchiveError, DataFile, data_file, file_name
from fencepost.arrow.storage import Storage
from fencepost.spark.archive.running import Run
from fencepost.spark.archive.writing import write_by_tasks

COPY_RECORDS: Final = 250_000
"""Records in one file at most."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What is in a file that a task wrote; `problem` says what makes it useless."""

    path: str
    partition: int
    first: int
    last: int
    problem: str = ""


def topics_in(table: Any) -> list[str]:
    """The names of topics that a table (a DataFrame) has records of. PySparkException."""
    return [row.topic for row in table.select("topic").distinct().collect() if row.topic]


def copy_topic(table: Any, topic: str, place: Storage, tag: str, run: Run) -> list[DataFile]:
    """Copy a topic's records to `place`, of which nothing else is left; files in order, on the
    disk. ArchiveError where an offset is there twice or none; PySparkException, OSError."""
    place.delete_all("")
    # A name of its own: tasks of a driver that was killed may write for a moment yet.
    written = f"_{secrets.token_hex(6)}"
    try:
        paths = _write(table.where(table["topic"] == topic), place, written)
        looks = run(partial(_look_at, place), paths)
        looks.sort(key=lambda one: (one.partition, one.first))
        _require_each_once(topic, looks)
        origin = f"c{secrets.token_hex(6)}"
        moves = [
            (one.path, file_name(one.partition, one.first, one.last, tag, origin)) for one in looks
        ]
        place.move_all(moves)
    finally:
        place.delete_all(written)
    files = [data_file(place, target, place.size(target), topic) for _, target in moves]
    return [one for one in files if one is not None]


def _write(rows: Any, place: Storage, written: str) -> list[str]:
    """Have Spark's tasks sort records and write them, with ranges of offsets for each task."""
    ordered = rows.repartitionByRange("partition", "offset").sortWithinPartitions(
        "partition", "offset"
    )
    return write_by_tasks(ordered, place, written, records_max=COPY_RECORDS)


def _look_at(place: Storage, path: str) -> _Look:
    with DataFile("", "", 0, "", 0, 0, path, place).opened() as file:
        table = file.read(["partition", "offset"])
    if any(table.column(name).null_count for name in table.column_names):
        return _Look(path, -1, -1, -1, "a record has no partition, or no offset")
    partitions = table.column("partition").to_numpy()
    offsets = table.column("offset").to_numpy()
    look = _Look(path, int(partitions[0]), int(offsets[0]), int(offsets[-1]))
    if (partitions != partitions[0]).any() or min(partitions[0], offsets[0]) < 0:
        return _Look(path, -1, -1, -1, "a record has a partition or an offset below 0")
    again = np.flatnonzero(np.diff(offsets) <= 0)
    if len(again):
        where = (look.partition, int(offsets[again[0]]))
        return _Look(path, *where, where[1], _twice(*where))
    return look


def _require_each_once(topic: str, looks: Sequence[_Look]) -> None:
    for before, one in zip([None, *looks], looks, strict=False):
        problem = one.problem
        if before and before.partition == one.partition and before.last >= one.first:
            problem = problem or _twice(one.partition, one.first)
        if problem:
            raise ArchiveError(f"the table's records of {topic} cannot be replayed: {problem}")


def _twice(partition: int, offset: int) -> str:
    return f"offset {offset} of partition {partition} is there twice"
