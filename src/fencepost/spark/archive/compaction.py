"""Small files made few, without a moment at which a reader sees a record twice or not at all.

Per directory of a date, and per partition and topic in it, files that follow each other become one,
up to a size. What is new is written to `_fencepost/compaction`, and the files that stay as they are
are linked to it; then the two directories are exchanged in one step (`layout.exchange`). So a
directory has either all old files or all new ones. A batch that is archived meanwhile waits for the
exchange of a directory, not for the writing: files that came since are linked before it.

A crash leaves nothing to repair: whatever is in `_fencepost/compaction` does not count, be it half
of what was to be new or what was replaced, and the next run removes it. Until then replaced files
stay, for readers that are just listing the directory that they were in; `discard` removes them at
the end of the run.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.spark.archive.batches import offsets_of, recover
from fencepost.spark.archive.layout import (
    ArchiveError,
    DataFile,
    Layout,
    exchange,
    file_name,
    sync,
)
from fencepost.spark.archive.running import Run, here

TARGET_BYTES: Final = 256 * 1024 * 1024
ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
BATCH_ROWS: Final = 16_384
PIECES_MAX: Final = 64
"""So many files are made between two exchanges, at least."""


@dataclass(frozen=True, slots=True)
class Merge:
    """One file to be made of several."""

    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a run did."""

    directories: int
    files_before: int
    files_after: int
    rows: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """A directory's files that become fewer."""

    directory: Path
    draft: Path
    inputs: tuple[DataFile, ...]
    merges: tuple[Merge, ...]
    size: int
    """Of the inputs, in bytes."""


def compact(
    layout: Layout,
    run: Run = here,
    *,
    target_bytes: int = TARGET_BYTES,
    discard: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> Compacted:
    """Make few files of many. One compaction at a time; batches may be archived meanwhile.

    `on_progress` is told how many bytes of how many are compacted. ArchiveError for damaged files,
    or where directories cannot be exchanged; what was done before stands. OSError.
    """
    with layout.lock("compaction", wait=False, holder="another compaction"):
        with layout.lock("layout", wait=True):
            recover(layout)
        layout.clear(layout.compaction)
        run_place = layout.compaction / secrets.token_hex(6)
        run_place.mkdir(parents=True)
        files, _ = layout.listing()
        plans = list(_plan(files, run_place, target_bytes))
        total = sum(plan.size for plan in plans)
        done = Compacted(0, 0, 0, 0, 0, 0)
        for some in _slices(plans):
            merges = [merge for plan in some for merge in plan.merges]
            rows = run(merge_files, merges)
            for plan in some:
                after = sum(os.path.getsize(merge.output) for merge in plan.merges)
                _put_in_place(layout, plan)
                done = Compacted(
                    done.directories + 1,
                    done.files_before + len(plan.inputs),
                    done.files_after + len(plan.merges),
                    done.rows,
                    done.bytes_before + plan.size,
                    done.bytes_after + after,
                )
                on_progress(done.bytes_before, total)
            done = replace(done, rows=done.rows + sum(rows))
        if discard:
            layout.clear(layout.compaction)
        return done


def _size(file: DataFile) -> int:
    return os.path.getsize(file.path)


def _plan(files: Iterable[DataFile], place: Path, target_bytes: int) -> Iterator[_Plan]:
    by_directory = sorted(files, key=lambda one: (one.directory, one.partition, one.tag, one.first))
    for number, (directory, some) in enumerate(groupby(by_directory, lambda one: one.directory)):
        draft = place / str(number)
        inputs: list[DataFile] = []
        merges: list[Merge] = []
        for group in _groups(some, target_bytes):
            first, last = group[0].first, max(one.last for one in group)
            name = file_name(group[0].partition, first, last, group[0].tag, f"c{place.name}")
            paths = tuple(str(one.path) for one in group)
            merges.append(Merge(paths, str(draft / name)))
            inputs += group
        if merges:
            size = sum(map(_size, inputs))
            yield _Plan(directory, draft, tuple(inputs), tuple(merges), size)


def _groups(files: Iterable[DataFile], target_bytes: int) -> Iterator[list[DataFile]]:
    """Neighbours that together are no larger than the target. What is half as large alone stays as
    it is, or it would be written again with every little file that follows."""
    group: list[DataFile] = []
    total = 0
    for file in files:
        size = _size(file)
        fits = group and (file.partition, file.tag) == (group[0].partition, group[0].tag)
        if not fits or total + size > target_bytes or 2 * size >= target_bytes:
            if len(group) > 1:
                yield group
            group, total = [], 0
        if 2 * size < target_bytes:
            group.append(file)
            total += size
    if len(group) > 1:
        yield group


def _slices(plans: Sequence[_Plan]) -> Iterator[list[_Plan]]:
    some: list[_Plan] = []
    for plan in plans:
        some.append(plan)
        if sum(len(one.merges) for one in some) >= PIECES_MAX:
            yield some
            some = []
    if some:
        yield some


def merge_files(merge: Merge) -> int:
    """Write a file of several, in order of offsets; how many rows it has. ArchiveError when one
    of them cannot be read or is not what its name says."""
    output = Path(merge.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    expected = 0
    written = 0
    writer: pq.ParquetWriter | None = None
    try:
        for name in merge.inputs:
            with _opened(Path(name)) as file:
                expected += file.metadata.num_rows
                for table in _row_groups(file, Path(name)):
                    if writer is None:
                        writer = pq.ParquetWriter(
                            output, table.schema, compression="zstd", write_page_checksum=True
                        )
                    writer.write_table(table)
                    written += table.num_rows
    finally:
        if writer is not None:
            writer.close()
    if written != expected:
        raise ArchiveError(f"{output}: has {written} rows of {expected}")
    offsets_of(pq.read_table(output, columns=["offset"], partitioning=None), output)
    sync(output)
    return written


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise ArchiveError(f"{path}: cannot be read: {error}") from error


def _row_groups(file: pq.ParquetFile, path: Path) -> Iterator[pa.Table]:
    """The rows in tables of about ROW_GROUP_BYTES."""
    batches: list[pa.RecordBatch] = []
    size = 0
    try:
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            batches.append(batch)
            size += batch.nbytes
            if size >= ROW_GROUP_BYTES:
                yield pa.Table.from_batches(batches)
                batches, size = [], 0
    except (pa.ArrowException, OSError) as error:
        raise ArchiveError(f"{path}: cannot be read: {error}") from error
    if batches:
        yield pa.Table.from_batches(batches)


def _put_in_place(layout: Layout, plan: _Plan) -> None:
    """Exchange a directory with its draft, which gets what came to the directory since."""
    replaced = {one.path.name for one in plan.inputs}
    with layout.lock("layout", wait=True):
        there = [path for path in plan.directory.iterdir() if path.is_file()]
        if replaced - {path.name for path in there}:
            raise ArchiveError(f"{plan.directory}: files went away while they were compacted")
        for path in there:
            if path.name not in replaced:
                os.link(path, plan.draft / path.name)
        sync(plan.draft)
        exchange(plan.directory, plan.draft)
