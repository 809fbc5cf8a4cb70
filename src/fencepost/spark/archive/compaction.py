"""Small files made few, without a moment at which a reader sees a record twice or not at all.

Per directory of a date, and per partition and topic in it, files that follow each other become one,
up to a size. What is new is written to `_fencepost/compaction`.

On a local disk the files that stay as they are are linked to it; then the two directories are
exchanged in one step (`layout.exchange`). So a directory has either all old files or all new ones.
A batch that is archived meanwhile waits for the exchange of a directory, not for the writing: files
that came since are linked before it. A crash leaves nothing to repair: whatever is in
`_fencepost/compaction` does not count, be it half of what was to be new or what was replaced, and
the next run removes it. Until then replaced files stay, for readers that are just listing the
directory that they were in; `discard` removes them at the end of the run.

A store has no such step. There the state names the new files and those that they replace (`Swap`):
that is the decision. Then new files are copied into place and old ones deleted, by this run or the
next. `fencepost archive` and `counted_files` go by the state and see every record once; a reader
that lists directories meanwhile sees records twice, for as long as the copies take.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.arrow.archive.layout import (
    COMPACTION,
    ArchiveError,
    DataFile,
    Layout,
    exchange,
    file_name,
    place_of,
)
from fencepost.arrow.archive.schema import FILE_SCHEMA, REMEDY, require_columns
from fencepost.arrow.archive.state import State, Swap, counted_files, recover, update_state
from fencepost.arrow.storage import Storage, sync
from fencepost.spark.archive.batches import offsets_of
from fencepost.spark.archive.running import Run, here
from fencepost.spark.archive.writing import ROW_GROUP_BYTES, parquet_writer
from fencepost.spark.evolution import ColumnChangeError, evolved, fitted

TARGET_BYTES: Final = 256 * 1024 * 1024
BATCH_ROWS: Final = 16_384
PIECES_MAX: Final = 64
"""So many files are made between two exchanges, at least."""


@dataclass(frozen=True, slots=True)
class Merge:
    """One file to be made of several."""

    inputs: tuple[DataFile, ...]
    storage: Storage
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

    directory: str
    draft: str
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
        state = recover(layout)
        layout.storage.delete_all(COMPACTION)
        run_place = f"{COMPACTION}/{secrets.token_hex(6)}"
        files, _ = counted_files(layout, state)
        plans = list(_plan(layout, files, run_place, target_bytes))
        total = sum(plan.size for plan in plans)
        done = Compacted(0, 0, 0, 0, 0, 0)
        for some in _slices(plans):
            merges = [merge for plan in some for merge in plan.merges]
            merged = run(merge_files, merges)
            sizes = iter(merged)
            if not layout.is_local:
                state = _swap(layout, state, some)
            for plan in some:
                if layout.is_local:
                    _put_in_place(layout, plan)
                after = [next(sizes) for _ in plan.merges]
                done = Compacted(
                    done.directories + 1,
                    done.files_before + len(plan.inputs),
                    done.files_after + len(plan.merges),
                    done.rows + sum(one.rows for one in after),
                    done.bytes_before + plan.size,
                    done.bytes_after + sum(one.size for one in after),
                )
                on_progress(done.bytes_before, total)
        if discard:
            layout.storage.delete_all(COMPACTION)
        return done


def _plan(
    layout: Layout, files: Iterable[DataFile], place: str, target_bytes: int
) -> Iterator[_Plan]:
    by_directory = sorted(files, key=lambda one: (one.directory, one.partition, one.tag, one.first))
    for number, (directory, some) in enumerate(groupby(by_directory, lambda one: one.directory)):
        draft = f"{place}/{number}"
        inputs: list[DataFile] = []
        merges: list[Merge] = []
        for group in _groups(some, target_bytes):
            first, last = group[0].first, group[-1].last
            origin = f"c{place.rpartition('/')[2]}"
            name = file_name(group[0].partition, first, last, group[0].tag, origin)
            merges.append(Merge(tuple(group), layout.storage, f"{draft}/{name}"))
            inputs += group
        if merges:
            size = sum(one.size for one in inputs)
            yield _Plan(directory, draft, tuple(inputs), tuple(merges), size)


def _groups(files: Iterable[DataFile], target_bytes: int) -> Iterator[list[DataFile]]:
    """Neighbours that together are no larger than the target. What is half as large alone stays as
    it is, or it would be written again with every little file that follows."""
    group: list[DataFile] = []
    total = 0
    for file in files:
        size = file.size
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


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge has written."""

    rows: int
    size: int
    """In bytes."""


def merge_files(merge: Merge) -> Merged:
    """Write a file of several, in order of offsets. ArchiveError when one of them cannot be read or
    is not what its name says."""
    expected = written = 0
    output = place_of(merge.storage, merge.output)
    schema = _schema_of(merge.inputs)
    with merge.storage.open_output(merge.output) as file, parquet_writer(file, schema) as writer:
        for one in merge.inputs:
            try:
                with one.opened() as parquet:
                    expected += parquet.metadata.num_rows
                    for table in _row_groups(parquet):
                        writer.write_table(fitted(table, schema))
                        written += table.num_rows
            except (pa.ArrowException, OSError) as error:
                raise ArchiveError(f"{one.uri}: cannot be read: {error}") from error
        if written != expected:
            raise ArchiveError(f"{output}: has {written} rows of {expected}")
    size = merge.storage.size(merge.output)
    with replace(merge.inputs[0], path=merge.output).opened() as parquet:
        offsets_of(parquet.read(["offset"]), output)
    return Merged(written, size)


def _schema_of(files: Iterable[DataFile]) -> pa.Schema:
    """What holds the rows of all files, with columns beside those of an archive. ArchiveError."""
    schema = FILE_SCHEMA
    for one in files:
        try:
            with one.opened() as parquet:
                found = parquet.schema_arrow
        except (pa.ArrowException, OSError) as error:
            raise ArchiveError(f"{one.uri}: cannot be read: {error}") from error
        require_columns(found, FILE_SCHEMA.names, one.uri)
        try:
            schema = evolved(schema, pa.schema(map(_kept, found)), REMEDY)
        except ColumnChangeError as error:
            raise ArchiveError(f"{one.uri}: {error}") from error
    return schema


def _kept(field: pa.Field) -> pa.Field:
    """A file's column as compaction keeps it: only whole numbers have wider types."""
    is_own = field.name in FILE_SCHEMA.names and not pa.types.is_integer(field.type)
    return FILE_SCHEMA.field(field.name) if is_own else pa.field(field.name, field.type)


def _row_groups(file: pq.ParquetFile) -> Iterator[pa.Table]:
    """The rows in tables of about ROW_GROUP_BYTES."""
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in file.iter_batches(batch_size=BATCH_ROWS):
        batches.append(batch)
        size += batch.nbytes
        if size >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(batches)
            batches, size = [], 0
    if batches:
        yield pa.Table.from_batches(batches)


def _put_in_place(layout: Layout, plan: _Plan) -> None:
    """Exchange a local directory with its draft, which gets what came to the directory since."""
    replaced = {one.name for one in plan.inputs}
    directory, draft = layout.local(plan.directory), layout.local(plan.draft)
    with layout.lock("layout", wait=True):
        there = [path for path in directory.iterdir() if path.is_file()]
        if replaced - {path.name for path in there}:
            raise ArchiveError(f"{directory}: files went away while they were compacted")
        for path in there:
            if path.name not in replaced:
                os.link(path, draft / path.name)
        sync(draft)
        exchange(directory, draft)


def _swap(layout: Layout, seen: State, plans: Sequence[_Plan]) -> State:
    """Have new files count instead of old ones, in a store. ArchiveError where another compaction
    did so with others meanwhile."""
    adds = [
        (merge.output.removeprefix(f"{COMPACTION}/"), _target(plan, merge))
        for plan in plans
        for merge in plan.merges
    ]
    removes = tuple(one.path for plan in plans for one in plan.inputs)
    swap = Swap(secrets.token_hex(6), tuple(adds), removes)

    def change(state: State) -> State:
        if state.swap.id != seen.swap.id:
            raise ArchiveError(f"{layout}: another compaction is running already")
        return replace(state, swap=swap)

    return update_state(layout, change)


def _target(plan: _Plan, merge: Merge) -> str:
    return f"{plan.directory}/{merge.output.rpartition('/')[2]}"
