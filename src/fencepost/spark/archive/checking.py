"""What an archive has, and whether that is what was read.

`status` looks at names and footers. `verify` reads every file as a whole, with the checksums of its
pages, and holds what is there against `state.json`: no offset twice, none that was never read, as
many records as were written. Offsets that were read and have no record are not a fault: transaction
markers, aborted records and compaction leave such. What was not read at all between two ranges that
were, is a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.arrow.archive.layout import ArchiveError, DataFile, Layout
from fencepost.arrow.archive.schema import FILE_SCHEMA, fitted, require_columns
from fencepost.arrow.archive.state import (
    Incarnation,
    Ranges,
    counted_files,
    merged,
    read_parquet_state,
)
from fencepost.spark.archive.batches import offsets_of
from fencepost.spark.archive.running import Run, here

FOREIGN_MAX = 20


@dataclass(frozen=True, slots=True)
class DateStatus:
    """The files of a topic's date."""

    topic: str
    date: str
    files: int
    records: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """What was read of a partition, and what is there."""

    topic: str
    topic_id: str
    partition: int
    read: Ranges
    records: int
    files: int
    file_records: int
    problems: tuple[str, ...] = ()

    @property
    def gaps(self) -> Ranges:
        """Offsets that were not read, between such that were."""
        return [(a[1], b[0]) for a, b in zip(self.read, self.read[1:], strict=False)]

    @property
    def without_record(self) -> int:
        """Offsets that were read and have no record."""
        return sum(end - start for start, end in self.read) - self.records


@dataclass(frozen=True)
class Status:
    """What `status` and `verify` return; `problems` of files and, in partitions, of records."""

    batch: int
    format: str
    dates: list[DateStatus]
    partitions: list[PartitionStatus]
    problems: list[str] = field(default_factory=list)

    @property
    def all_problems(self) -> list[str]:
        return self.problems + [
            f"{one.topic}-{one.partition}: {text}"
            for one in self.partitions
            for text in one.problems
        ]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is in a file, or why it cannot be read. `runs`: consecutive offsets, from and to."""

    rows: int
    runs: Any = None
    problem: str | None = None


def status(layout: Layout) -> Status:
    """By names and footers, without Spark. ArchiveError, OSError."""
    return _status(layout, here, _footer)


def verify(layout: Layout, run: Run = here) -> Status:
    """By all that is in the files. ArchiveError, OSError."""
    return _status(layout, run, _contents)


def _status(layout: Layout, run: Run, look: Any) -> Status:
    state = read_parquet_state(layout)
    files, foreign = counted_files(layout, state)
    seen = dict(zip(files, run(look, files), strict=True))
    problems = [f"{path}: is no file of the archive" for path in foreign[:FOREIGN_MAX]]
    if len(foreign) > FOREIGN_MAX:
        problems.append(f"and {len(foreign) - FOREIGN_MAX} more that are no files of the archive")
    problems += [f"{one.uri}: {found.problem}" for one, found in seen.items() if found.problem]
    known = {(one.topic, one.tag) for one in state.incarnations}
    for one in files:
        if (one.topic, one.tag) not in known:
            problems.append(f"{one.uri}: is of a topic that was never read")
    return Status(
        batch=state.batch,
        format=state.data_format,
        dates=_dates(seen),
        partitions=[
            _partition(one, number, seen)
            for one in state.incarnations
            for number in sorted(one.partitions)
        ],
        problems=problems,
    )


def _footer(file: DataFile) -> _Seen:
    try:
        with file.opened() as parquet:
            return _Seen(parquet.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        return _Seen(0, problem=f"cannot be read: {error}")


def _contents(file: DataFile) -> _Seen:
    try:
        return _read(file)
    except (pa.ArrowException, OSError, ArchiveError) as error:
        return _Seen(0, problem=f"cannot be read: {error}")


def _read(file: DataFile) -> _Seen:
    parts = []
    with file.opened() as parquet:
        require_columns(parquet.schema_arrow, FILE_SCHEMA.names, file.uri)
        for batch in parquet.iter_batches():  # all columns, for their checksums
            if (batch.column("partition").to_numpy() != file.partition).any():
                raise ArchiveError(f"has records of other partitions than {file.partition}")
            parts.append(fitted(batch.select(["offset"])))
    offsets = offsets_of(
        pa.Table.from_batches(parts, pa.schema([("offset", pa.int64())])), file.uri
    )
    if (int(offsets[0]), int(offsets[-1])) != (file.first, file.last):
        raise ArchiveError(f"has offsets {offsets[0]} to {offsets[-1]}, not those of its name")
    breaks = np.flatnonzero(np.diff(offsets) > 1)
    starts = offsets[np.concatenate(([0], breaks + 1))]
    ends = offsets[np.concatenate((breaks, [len(offsets) - 1]))] + 1
    return _Seen(len(offsets), np.stack([starts, ends]))


def _dates(seen: Mapping[DataFile, _Seen]) -> list[DateStatus]:
    found: dict[tuple[str, str], DateStatus] = {}
    for file, one in seen.items():
        name = (file.topic, file.date)
        old = found.get(name, DateStatus(*name, 0, 0, 0))
        size = old.file_bytes + file.size
        found[name] = DateStatus(*name, old.files + 1, old.records + one.rows, size)
    return [found[name] for name in sorted(found)]


def _partition(
    incarnation: Incarnation, number: int, seen: Mapping[DataFile, _Seen]
) -> PartitionStatus:
    name = (incarnation.topic, incarnation.tag, number)
    mine = {f: one for f, one in seen.items() if (f.topic, f.tag, f.partition) == name}
    rows = sum(one.rows for one in mine.values())
    expected = incarnation.records.get(number, 0)
    problems = []
    if rows != expected:
        problems.append(f"{expected} records were archived, the files have {rows}")
    runs = [one.runs for one in mine.values() if one.runs is not None]
    problems += _problems_of(runs, incarnation.partitions[number])
    return PartitionStatus(
        topic=incarnation.topic,
        topic_id=incarnation.topic_id,
        partition=number,
        read=incarnation.partitions[number],
        records=expected,
        files=len(mine),
        file_records=rows,
        problems=tuple(problems),
    )


def _problems_of(runs: Sequence[Any], read: Ranges) -> Iterable[str]:
    """Offsets that are there twice, or were never read."""
    if not runs:
        return
    pairs = np.concatenate(runs, axis=1)
    starts, ends = pairs[:, np.argsort(pairs[0], kind="stable")]
    reached = np.maximum.accumulate(ends)
    twice = np.minimum(reached[:-1], ends[1:]) - starts[1:]
    repeated = int(twice[twice > 0].sum())
    if repeated:
        first = int(starts[1:][twice > 0][0])
        yield f"{repeated} offsets are there twice, the first is {first}"
    for start, end in merged(zip(starts.tolist(), ends.tolist(), strict=True)):
        if not any(low <= start and end <= high for low, high in read):
            yield f"offsets {start} to {end - 1} have records, but were not all read"
