"""What a task does with the events of one bucket: reads its files, merges, writes new ones.

The old rows do not go through Spark: the task reads the bucket's Parquet files itself, so a batch
costs what its events and the buckets that it changes cost, however large the table is.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.arrow.storage import Storage
from fencepost.spark.evolution import fitted
from fencepost.spark.tables.decoding import ASIDE
from fencepost.spark.tables.errors import TableError, UnorderedError
from fencepost.spark.tables.events import ERROR, IGNORED
from fencepost.spark.tables.merging import COUNTS, Rules, merge
from fencepost.spark.tables.versions import Bucket, new_file, place_from_json, place_to_json

ERROR_COLUMNS: Final = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("error", pa.string()),
    ]
)
ALL_COUNTS: Final = (*COUNTS, "errors", "ignored")


@dataclass(frozen=True)
class BucketReport:
    """What became of a bucket. `after` is None where it is as it was; `refused` says why the batch
    cannot be taken in."""

    bucket: int
    counts: Mapping[str, int]
    after: Bucket | None = None
    marks: tuple[Any, ...] = ()
    lasts: Mapping[int, tuple[int, bytes | None]] = field(default_factory=dict)
    newest_ms: int | None = None
    errors: str | None = None
    first_error: str = ""
    refused: str = ""

    def to_json(self) -> str:
        document = {**self.__dict__, "marks": [place_to_json(one) for one in self.marks]}
        document["after"] = None if self.after is None else [*_fields(self.after)]
        document["lasts"] = [
            [partition, offset, None if key is None else key.hex()]
            for partition, (offset, key) in self.lasts.items()
        ]
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str) -> BucketReport:
        document = json.loads(text)
        after = document.pop("after")
        marks = tuple(place_from_json(one) for one in document.pop("marks"))
        lasts = {
            partition: (offset, None if key is None else bytes.fromhex(key))
            for partition, offset, key in document.pop("lasts")
        }
        after = None if after is None else Bucket(*after)
        return cls(after=after, marks=marks, lasts=lasts, **document)


def _fields(bucket: Bucket) -> list[Any]:
    return [
        *(bucket.rows, bucket.deletes, bucket.row_count),
        *(bucket.delete_count, bucket.file_bytes),
    ]


@dataclass(frozen=True)
class BucketWork:
    """A batch's work on any bucket; it travels to tasks."""

    storage: Storage
    rules: Rules
    files: Mapping[int, tuple[str, ...]]

    def merge_bucket(self, bucket: int, events: pa.Table) -> BucketReport:
        """Of one bucket. OSError for what cannot be read or written."""
        newest = pc.max(events["timestamp_ms"]).as_py()
        if bucket == ASIDE:
            return replace(self._put_aside(events), newest_ms=newest)
        try:
            merged = merge(self.read_bucket(bucket), events, self.rules)
        except UnorderedError as error:
            return BucketReport(bucket, {}, refused=str(error))
        after = self.write_bucket(bucket, merged.rows) if merged.changed else None
        return BucketReport(bucket, merged.counts, after, merged.marks, merged.lasts, newest)

    def read_bucket(self, bucket: int) -> pa.Table:
        """The bucket's rows and deletions."""
        tables = [
            fitted(read_file(self.storage, file), self.rules.stored)
            for file in self.files.get(bucket, ())
        ]
        return pa.concat_tables([self.rules.stored.empty_table(), *tables])

    def write_bucket(self, bucket: int, table: pa.Table) -> Bucket:
        """New files of a bucket."""
        parts: list[tuple[str | None, int, int]] = []
        for kind, rows in (
            ("b", table.filter(pc.invert(table["__deleted"]))),
            ("d", table.filter(table["__deleted"])),
        ):
            file = new_file(kind, bucket) if rows.num_rows else None
            size = 0 if file is None else write_file(self.storage, file, rows)
            parts.append((file, rows.num_rows, size))
        (rows_file, row_count, size), (deletes_file, delete_count, more) = parts
        return Bucket(rows_file, deletes_file, row_count, delete_count, size + more)

    def _put_aside(self, events: pa.Table) -> BucketReport:
        ignored = pc.sum(pc.equal(events["kind"], IGNORED)).as_py()
        wrong = events.filter(pc.equal(events["kind"], ERROR))
        wrong = wrong.sort_by([("partition", "ascending"), ("offset", "ascending")])
        counts = {"ignored": ignored, "errors": wrong.num_rows}
        if not wrong.num_rows:
            return BucketReport(ASIDE, counts)
        names = {"raw_key": "key", "raw_value": "value"}
        wanted = [{"key": "raw_key", "value": "raw_value"}.get(n, n) for n in ERROR_COLUMNS.names]
        rows = wrong.select(wanted).rename_columns([names.get(n, n) for n in wanted])
        file = f"errors/e-{secrets.token_hex(6)}.parquet"
        write_file(self.storage, file, rows.cast(ERROR_COLUMNS))
        one = rows.slice(0, 1).to_pylist()[0]
        first = f"partition {one['partition']}, offset {one['offset']}: {one['error']}"
        return BucketReport(ASIDE, counts, errors=file, first_error=first)


def read_file(storage: Storage, file: str) -> pa.Table:
    """A Parquet file of a table. TableError for one that is gone or damaged."""
    try:
        with storage.open_input(file) as source:
            return pq.ParquetFile(source).read()
    except FileNotFoundError as error:
        raise TableError(f"{storage.uri_of(file)}: is missing, though a version has it") from error
    except pa.ArrowException as error:
        raise TableError(f"{storage.uri_of(file)}: cannot be read: {error}") from error


def write_file(storage: Storage, file: str, rows: pa.Table) -> int:
    """Write a Parquet file; its size in bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    data = sink.getvalue()
    with storage.open_output(file) as out:
        out.write(data)
    return int(data.size)
