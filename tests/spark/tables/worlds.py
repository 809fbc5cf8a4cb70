"""Records for tables, as Arrow and as Debezium writes them, and tables without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.arrow.storage import Storage, storage_at
from fencepost.spark.tables.batches import MergeOptions, Reach, apply_batch, in_this_process
from fencepost.spark.tables.decoding import Decoding, decode_records
from fencepost.spark.tables.events import UNAVAILABLE
from fencepost.spark.tables.merging import Merged, Rules, deleted_last, merge
from fencepost.spark.tables.query import prepare
from fencepost.spark.tables.versions import Settings, Version, Versions

STRUCT = pa.struct([("a", pa.int32())])
WIDER_STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("big", pa.string())])


class Record(NamedTuple):
    """A record as a task reads it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = 0


def batch_of(records: Sequence[Record]) -> pa.RecordBatch:
    """Records as tasks decode them."""
    return pa.record_batch(
        {
            "key": pa.array([one.key for one in records], pa.binary()),
            "value": pa.array([one.value for one in records], pa.binary()),
            "partition": pa.array([one.partition for one in records], pa.int32()),
            "offset": pa.array([one.offset for one in records], pa.int64()),
            "timestamp_ms": pa.array([one.timestamp_ms for one in records], pa.int64()),
        }
    )


def envelope(op: str, position: int | None = None, **given: Any) -> bytes:
    """A change as Debezium's PostgreSQL connector tells it."""
    source = {"connector": "postgresql", "name": "shop", "lsn": position, "table": "orders"}
    return json.dumps({"before": None, "after": None, "source": source, "op": op, **given}).encode()


def key_of(number: int) -> bytes:
    return json.dumps({"id": number}).encode()


def row_of(number: int, name: str | None, big: str | None = UNAVAILABLE) -> dict[str, Any]:
    return {"id": number, "name": name, "big": big}


def decoding_of(decode: str, columns: pa.Schema = COLUMNS, buckets: int = 2) -> Decoding:
    key = ("key",) if decode == "bytes" else ("id",)
    return Decoding(decode, key, columns, buckets)


class MergedTable:
    """A table in memory: every bucket is merged by itself, as tasks do."""

    def __init__(self, decoding: Decoding, order: str) -> None:
        self.decoding = decoding
        self.rules = Rules(decoding.columns, order)
        self.buckets: dict[int, pa.Table] = {}
        self.counts: dict[str, int] = {}

    def take(self, records: Sequence[Record], generation: int = 0) -> list[Merged]:
        """One batch."""
        events = pa.Table.from_batches([decode_records(batch_of(records), self.decoding)])
        rules = replace(self.rules, generation=generation)
        found = []
        for number in sorted(pc.unique(events["bucket"]).to_pylist()):
            assert number >= 0, events.to_pylist()
            old = self.buckets.get(number, rules.stored.empty_table())
            found.append(merge(old, events.filter(pc.equal(events["bucket"], number)), rules))
            self.buckets[number] = found[-1].rows
            for name, count in found[-1].counts.items():
                self.counts[name] = self.counts.get(name, 0) + count
            self.rules = replace(self.rules, marks=found[-1].marks or rules.marks)
        last = deleted_last([one.lasts for one in found], rules.deleted_last)
        self.rules = replace(self.rules, deleted_last=last)
        return found

    def rows(self, *, deleted: bool = False) -> list[dict[str, Any]]:
        """All live rows, or all deletions."""
        return [
            row
            for table in self.buckets.values()
            for row in table.to_pylist()
            if row["__deleted"] is deleted
        ]

    def names(self) -> dict[int, tuple[str | None, str | None]]:
        """Name and big by id."""
        rows = self.rows()
        found = {row["id"]: (row["name"], row["big"]) for row in rows}
        assert len(found) == len(rows), "a key is there twice"
        return found


class StoredTable:
    """A table in a directory, whose batches are merged in this process."""

    def __init__(
        self,
        place: Path | Storage,
        decode: str = "debezium",
        *,
        columns: pa.Schema = COLUMNS,
        order: str = "source",
        options: MergeOptions | None = None,
    ) -> None:
        self.versions = Versions(storage_at(place) if isinstance(place, Path) else place)
        self.decoding = decoding_of(decode, columns, 3)
        self.settings = Settings(decode, self.decoding.key, order, 3)
        self.options = options or MergeOptions()
        prepare(self.versions, self.settings, columns)

    def take(
        self,
        number: int,
        records: Sequence[Record],
        *,
        query: str = "q",
        reach: Reach | None = None,
    ) -> Version | None:
        """One batch of the query."""
        run = in_this_process(pa.Table.from_batches([batch_of(records)]))
        reach = reach or Reach("orders", "id-1", ranges_of(records))
        return apply_batch(self.versions, self.decoding, query, number, reach, self.options, run)

    def rows(self, version: int | None = None) -> list[dict[str, Any]]:
        """Live rows, read as a reader does: by the files that the version names."""
        import pyarrow.parquet as pq

        found = self.versions.require_newest() if version is None else self.versions.read(version)
        rows = []
        for bucket in found.buckets.values():
            if bucket.rows is not None:
                with self.versions.storage.open_input(bucket.rows) as file:
                    rows += pq.ParquetFile(file).read().to_pylist()
        return sorted(rows, key=lambda row: row["__key"])

    def names(self, version: int | None = None) -> dict[int, tuple[str | None, str | None]]:
        rows = self.rows(version)
        found = {row["id"]: (row["name"], row.get("big")) for row in rows}
        assert len(found) == len(rows), "a key is there twice"
        return found


def columns_with(kind: pa.DataType) -> pa.Schema:
    """Columns with others in them."""
    return pa.schema([("id", pa.int64()), ("of", kind), ("all", pa.list_(kind))])


def grow_structs(place: Path) -> dict[int, dict[str, Any]]:
    """A table whose structs get a field and a wider one by a batch, and are asked for as before by
    the next; what `of` is then, by id."""

    def take(number: int, kind: pa.DataType, rows: Mapping[int, dict[str, Any]]) -> None:
        records = [
            Record(0, offset, key_of(one), envelope("c", offset + 1, after=after))
            for offset, (one, of) in enumerate(rows.items(), number * 10)
            for after in [{"id": one, "of": of, "all": [of, None]}]
        ]
        options = MergeOptions(on_error="keep")
        table = StoredTable(place, columns=columns_with(kind), options=options)
        assert table.take(number, records) is not None

    take(0, STRUCT, {number: {"a": number} for number in range(6)})
    take(1, WIDER_STRUCT, {0: {"a": 1 << 40, "b": "x"}})
    take(2, STRUCT, {1: {"a": 7, "b": "y"}})
    rest = {number: {"a": number, "b": None} for number in range(2, 6)}
    return {0: {"a": 1 << 40, "b": "x"}, 1: {"a": 7, "b": "y"}, **rest}


def ranges_of(records: Iterable[Record]) -> dict[int, tuple[int | None, int]]:
    """Where a batch of these records begins and ends."""
    found: dict[int, tuple[int | None, int]] = {}
    for one in records:
        begin, end = found.get(one.partition, (one.offset, one.offset + 1))
        assert begin is not None
        found[one.partition] = (min(begin, one.offset), max(end, one.offset + 1))
    return found
