"""Tasks write files of records: each its own, straight to where the archive is.

A file has the records of one partition, and of one value of each column that names directories, in
the order in which they came. Names of files cannot be guessed, and the driver gets those of tasks
that succeeded; what failed attempts and speculative ones leave is in no list, and is removed with
the staging directory. So no committer is needed that renames, which object stores cannot do well,
and none of Hadoop's file systems.

A task keeps OPEN_FILES_MAX files open, since timestamps of producers are in no order and a day
comes again. A record of a day whose file had to be closed begins another file: compaction joins
them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.arrow.archive.layout import NO_DATE
from fencepost.arrow.archive.schema import FILE_SCHEMA
from fencepost.arrow.storage import Storage

ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
"""What a task holds of rows that are not written yet, and so the most in a row group."""
OPEN_FILES_MAX: Final = 32
PATHS: Final = "path string"


def write_by_tasks(
    rows: Any, storage: Storage, place: str, folders: Sequence[str] = (), records_max: int = 0
) -> list[str]:
    """Have the tasks of a DataFrame write its rows to `place`; paths of the files.

    `folders` are columns whose values name directories. A file has no more rows than
    `records_max`, if that is not 0. Columns are those of FILE_SCHEMA and `folders`.
    PySparkException.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield as_rows(write_files(batches, storage, place, folders, records_max))

    wanted = rows.select(*folders, *FILE_SCHEMA.names)
    return [row.path for row in wanted.mapInArrow(write, PATHS).collect()]


def as_rows(paths: Sequence[str]) -> pa.RecordBatch:
    """Paths as a task hands them to Spark, in the schema PATHS."""
    return pa.RecordBatch.from_pydict({"path": pa.array(paths, pa.string())})


def write_files(
    batches: Iterable[pa.RecordBatch],
    storage: Storage,
    place: str,
    folders: Sequence[str] = (),
    records_max: int = 0,
) -> list[str]:
    """What a task does; paths of its files. OSError, ArrowException."""
    with _OpenFiles(storage, place, folders, records_max) as files:
        for batch in batches:
            for name, rows in _groups(batch, (*folders, "partition")):
                files.write(name, rows)
    return files.paths


class _OpenFiles:
    """The files that a task writes, by the values of the columns that they are divided by."""

    def __init__(
        self, storage: Storage, place: str, folders: Sequence[str], records_max: int
    ) -> None:
        self._storage = storage
        self._place = place
        self._folders = folders
        self._records_max = records_max
        self._open: dict[tuple[Any, ...], _File] = {}
        """Those last written to are last."""
        self._waiting_bytes = 0
        self.paths: list[str] = []

    def __enter__(self) -> _OpenFiles:
        return self

    def __exit__(self, *failure: Any) -> None:
        """Files appear, unless the task failed, or one before them."""
        ending = ExitStack()
        for file in self._open.values():
            ending.push(file.__exit__)
        ending.__exit__(*failure)

    def write(self, name: tuple[Any, ...], rows: pa.RecordBatch) -> None:
        file = self._open.pop(name, None)
        for part in _parts(rows, file.rows if file else 0, self._records_max):
            if file is not None and self._records_max and file.rows >= self._records_max:
                self._end(file)
                file = None
            file = file or self._begin(name)
            self._open[name] = file
            self._waiting_bytes += file.add(part)
            while self._waiting_bytes >= ROW_GROUP_BYTES:
                fullest = max(self._open.values(), key=lambda one: one.waiting_bytes)
                self._waiting_bytes -= fullest.end_group()

    def _begin(self, name: tuple[Any, ...]) -> _File:
        if len(self._open) >= OPEN_FILES_MAX:
            oldest = next(iter(self._open))
            self._end(self._open.pop(oldest))
        folders = [_folder(*one) for one in zip(self._folders, name, strict=False)]
        path = "/".join([self._place, *folders, f"part-{secrets.token_hex(12)}.parquet"])
        file = _File(self._storage, path)
        self.paths.append(path)
        return file

    def _end(self, file: _File) -> None:
        self._waiting_bytes -= file.waiting_bytes
        file.__exit__(None, None, None)


class _File:
    """A file that is being written: it appears when the block ends, unless that fails."""

    def __init__(self, storage: Storage, path: str) -> None:
        with ExitStack() as stack:
            output = stack.enter_context(storage.open_output(path))
            self._writer = stack.enter_context(parquet_writer(output))
            self._stack = stack.pop_all()
        self._waiting: list[pa.RecordBatch] = []
        self.waiting_bytes = 0
        self.rows = 0

    def __exit__(self, *failure: Any) -> None:
        with self._stack:
            if failure[0] is None:
                self.end_group()
            else:
                self._stack.pop_all().__exit__(*failure)

    def add(self, rows: pa.RecordBatch) -> int:
        """Keep rows to be written; how many bytes they are."""
        columns = [
            rows.column(name).cast(FILE_SCHEMA.field(name).type) for name in FILE_SCHEMA.names
        ]
        kept = pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)
        self._waiting.append(kept)
        self.rows += kept.num_rows
        self.waiting_bytes += kept.nbytes
        return int(kept.nbytes)

    def end_group(self) -> int:
        """Write what is kept as a row group; how many bytes it was."""
        written_bytes = self.waiting_bytes
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting))
            self._waiting, self.waiting_bytes = [], 0
        return written_bytes


def parquet_writer(output: Any, schema: pa.Schema = FILE_SCHEMA) -> pq.ParquetWriter:
    """What every file of an archive is written by."""
    return pq.ParquetWriter(output, schema, compression="zstd", write_page_checksum=True)


def _groups(
    batch: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """The rows by the values of columns, each in their order; the groups in that of their first
    rows.

    Rows of several groups are copied: a slice would keep all rows of its batch in memory.
    """
    if batch.num_rows == 0:
        return
    groups = np.zeros(batch.num_rows, np.int64)
    for name in columns:
        encoded = batch.column(name).dictionary_encode(null_encoding="encode")
        if len(encoded.dictionary) > 1:
            codes = encoded.indices.to_numpy(zero_copy_only=False)
            both = groups * len(encoded.dictionary) + codes
            groups = np.unique(both, return_inverse=True)[1]
    if not groups.any():
        yield _name(batch, 0, columns), batch
        return
    order = np.argsort(groups, kind="stable")
    split = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    for places in sorted(split, key=lambda rows: int(rows[0])):
        yield _name(batch, int(places[0]), columns), batch.take(pa.array(places))


def _name(batch: pa.RecordBatch, row: int, columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(batch.column(one)[row].as_py() for one in columns)


def _parts(rows: pa.RecordBatch, already: int, most: int) -> Iterator[pa.RecordBatch]:
    """Rows in slices that end where a file has as many as it may have."""
    while most and already % most + rows.num_rows > most:
        room = most - already % most  # of a full file: those of the next one
        yield rows.slice(0, room)
        rows, already = rows.slice(room), 0
    if rows.num_rows:
        yield rows


def _folder(column: str, value: Any) -> str:
    """A directory's name, as Spark and Hive write it."""
    return f"{column}={NO_DATE if value in (None, '') else quote(str(value), safe='')}"
