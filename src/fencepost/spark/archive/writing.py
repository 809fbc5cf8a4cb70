"""Spark's tasks write files of records: each its own, straight to where the archive is.

A task gets rows that are sorted by the columns that files are divided by, and begins a file
whenever one of them changes. Names of files cannot be guessed, and the driver gets those of tasks
that succeeded; what failed attempts and speculative ones leave is in no list, and is removed with
the staging directory. So no committer is needed that renames, which object stores cannot do well,
and none of Hadoop's file systems.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.arrow.archive.layout import NO_DATE
from fencepost.arrow.archive.schema import FILE_SCHEMA
from fencepost.arrow.storage import Storage

ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
PATHS: Final = "path string"


def write_by_tasks(
    rows: Any, storage: Storage, place: str, folders: Sequence[str] = (), records_max: int = 0
) -> list[str]:
    """Have the tasks of a DataFrame write its rows to `place`; paths of the files.

    The rows of each task must be in order of `folders`, columns whose values name directories, then
    `partition` and `offset`. A file has no more rows than `records_max`, if that is not 0. Columns
    are those of FILE_SCHEMA and `folders`. PySparkException.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        paths = write_files(batches, storage, place, folders, records_max)
        yield pa.RecordBatch.from_pydict({"path": pa.array(paths, pa.string())})

    wanted = rows.select(*folders, *FILE_SCHEMA.names)
    return [row.path for row in wanted.mapInArrow(write, PATHS).collect()]


def write_files(
    batches: Iterable[pa.RecordBatch],
    storage: Storage,
    place: str,
    folders: Sequence[str] = (),
    records_max: int = 0,
) -> list[str]:
    """What a task does; paths of its files. OSError, ArrowException."""
    paths: list[str] = []
    file: _File | None = None
    last: tuple[Any, ...] | None = None
    with ExitStack() as stack:
        for batch in batches:
            for rows in _runs(batch, (*folders, "partition")):
                name = tuple(rows.column(one)[0].as_py() for one in (*folders, "partition"))
                file = file if name == last else None
                last = name
                for part in _parts(rows, file.rows if file else 0, records_max):
                    if file is None or (records_max and file.rows >= records_max):
                        stack.close()
                        folder = [_folder(*one) for one in zip(folders, name, strict=False)]
                        path = "/".join([place, *folder, f"part-{secrets.token_hex(12)}.parquet"])
                        file = stack.enter_context(_File(storage, path))
                        paths.append(path)
                    file.write(part)
    return paths


class _File:
    """A file that is being written: it appears when the block ends, unless that fails."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._stack = ExitStack()
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self.rows = 0

    def __enter__(self) -> _File:
        output = self._stack.enter_context(self._storage.open_output(self._path))
        self._writer = self._stack.enter_context(parquet_writer(output))
        return self

    def __exit__(self, *failure: Any) -> None:
        if failure[0] is None:
            self._end_group()
        self._stack.__exit__(*failure)

    def write(self, rows: pa.RecordBatch) -> None:
        columns = [
            rows.column(name).cast(FILE_SCHEMA.field(name).type) for name in FILE_SCHEMA.names
        ]
        self._waiting.append(pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA))
        self.rows += rows.num_rows
        if sum(one.nbytes for one in self._waiting) >= ROW_GROUP_BYTES:
            self._end_group()

    def _end_group(self) -> None:
        if self._waiting:
            assert self._writer is not None, "the file was not entered"
            self._writer.write_table(pa.Table.from_batches(self._waiting))
            self._waiting = []


def parquet_writer(output: Any, schema: pa.Schema = FILE_SCHEMA) -> pq.ParquetWriter:
    """What every file of an archive is written by."""
    return pq.ParquetWriter(output, schema, compression="zstd", write_page_checksum=True)


def _runs(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows in slices within which the columns do not change."""
    if batch.num_rows == 0:
        return
    changed = np.zeros(batch.num_rows, bool)
    for name in columns:
        codes = batch.column(name).dictionary_encode(null_encoding="encode").indices
        changed[1:] |= np.diff(codes.to_numpy(zero_copy_only=False)) != 0
    starts = [0, *np.flatnonzero(changed).tolist(), batch.num_rows]
    for start, end in pairwise(starts):
        yield batch.slice(start, end - start)


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
