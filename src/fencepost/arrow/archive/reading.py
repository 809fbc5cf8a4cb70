"""Records of one partition of an archive, in order of offsets.

A partition's records lie in directories of several dates. Where timestamps do not rise with offsets
the files overlap, so they are merged: of all files that have begun, the rows up to where the first
of them has to be read on. At most those files are open that overlap, each with one batch of rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.arrow.archive.layout import ArchiveError, DataFile
from fencepost.arrow.archive.schema import FILE_SCHEMA, fitted, require_columns

BATCH_ROWS = 16_384


class _Cursor:
    """A file, read as far as needed."""

    def __init__(
        self, file: DataFile, start: int, end: int, columns: Sequence[str], rows: int
    ) -> None:
        self.file = file
        self._opened = ExitStack()
        parquet = self._opened.enter_context(file.opened())
        require_columns(parquet.schema_arrow, columns, file.uri)
        groups = [
            number
            for number, known in enumerate(column_statistics(parquet, "offset"))
            if known is None or (known[0] < end and known[1] >= start)
        ]
        batches = parquet.iter_batches(rows, row_groups=groups, columns=columns)
        self._batches = (fitted(batch.select(columns)) for batch in batches)
        self._start, self._end = start, end
        self.rows: pa.RecordBatch | None = None
        self._next()

    @property
    def first(self) -> int:
        """The first offset of the rows that are there."""
        assert self.rows is not None
        return int(self.rows.column("offset")[0].as_py())

    @property
    def last(self) -> int:
        """The last offset of the rows that are there."""
        assert self.rows is not None
        return int(self.rows.column("offset")[-1].as_py())

    def take(self, last: int) -> pa.RecordBatch:
        """The rows up to and with an offset, which is none behind those that are there."""
        assert self.rows is not None
        offsets = self.rows.column("offset").to_numpy()
        count = int(offsets.searchsorted(last, side="right"))
        taken = self.rows.slice(0, count)
        self.rows = self.rows.slice(count)
        if self.rows.num_rows == 0:
            self._next()
        return taken

    def _next(self) -> None:
        self.rows = None
        for batch in self._batches:
            offsets = batch.column("offset").to_numpy()
            low = int(offsets.searchsorted(self._start))
            high = int(offsets.searchsorted(self._end))
            if low < high:
                self.rows = batch.slice(low, high - low)
                return
            if len(offsets) and offsets[0] >= self._end:
                break
        self._opened.close()


def column_statistics(parquet: pq.ParquetFile, column: str) -> list[tuple[Any, Any] | None]:
    """The least and the greatest value of a column in each row group; None where a writer kept
    none."""
    found: list[tuple[Any, Any] | None] = []
    metadata = parquet.metadata
    names = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    place = names.index(column)
    for group in range(metadata.num_row_groups):
        kept = metadata.row_group(group).column(place).statistics
        found.append((kept.min, kept.max) if kept is not None and kept.has_min_max else None)
    return found


def records_in_order(
    files: Iterable[DataFile],
    start: int,
    end: int,
    columns: Sequence[str] | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """The records of `files` with start <= offset < end: with some columns (the offset is always
    there), or all of an archive, in the types of FILE_SCHEMA. ArchiveError for a file that cannot
    be read or has other columns, and for an offset that is there twice."""
    wanted = FILE_SCHEMA.names if columns is None else list(dict.fromkeys(["offset", *columns]))
    chosen = [one for one in files if one.first < end and one.last >= start]
    waiting = deque(sorted(chosen, key=lambda one: one.first))
    active: list[_Cursor] = []
    reached = start - 1
    try:
        while waiting or active:
            bound = min((cursor.last for cursor in active), default=None)
            while waiting and (bound is None or waiting[0].first <= bound):
                cursor = _Cursor(waiting.popleft(), start, end, wanted, batch_rows)
                if cursor.rows is not None:
                    active.append(cursor)
                    bound = cursor.last if bound is None else min(bound, cursor.last)
            if bound is None:
                return
            ready = [cursor for cursor in active if cursor.first <= bound]
            rows = _ordered([cursor.take(bound) for cursor in ready])
            active = [cursor for cursor in active if cursor.rows is not None]
            reached = _require_rising(rows, reached)
            yield rows
    except (pa.ArrowException, OSError) as error:
        raise ArchiveError(f"a file of the archive cannot be read: {error}") from error


def _ordered(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    rows = pa.Table.from_batches([part.replace_schema_metadata() for part in parts])
    return rows.take(pc.sort_indices(rows["offset"])).combine_chunks().to_batches()[0]


def _require_rising(rows: pa.RecordBatch, reached: int) -> int:
    offsets = rows.column("offset").to_numpy()
    before = reached
    if offsets[0] <= before or (offsets[1:] <= offsets[:-1]).any():
        raise ArchiveError(
            f"an offset from {offsets[0]} on is there twice, or out of order: see "
            "fencepost archive verify"
        )
    return int(offsets[-1])
