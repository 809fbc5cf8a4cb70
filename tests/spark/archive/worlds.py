"""Archives without Spark: batches as its tasks would write them, into files of an archive."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.arrow.archive.layout import CHECKPOINT, STAGING, Layout
from fencepost.arrow.archive.schema import FILE_SCHEMA
from fencepost.arrow.archive.state import read_state
from fencepost.arrow.storage import Storage
from fencepost.spark.archive.batches import Written, archive_batch
from fencepost.spark.archive.query import prepare
from fencepost.spark.archive.writing import write_files

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000
LISTED = r"topic=[^/]*/date=[^/]*/[^/]*\.parquet"
SCHEMA = FILE_SCHEMA


def record(partition: int, offset: int, *, days: int | None = None) -> dict[str, Any]:
    """A record that shows where it was; every third offset is of the day before."""
    back = (offset % 3 == 2) if days is None else days
    stamp_ms = NOW_MS - back * DAY_MS + offset
    return {
        "key": b"k%d" % (offset % 7) if offset % 5 else None,
        "value": b"%d/%d" % (partition, offset) if offset % 11 else None,
        "headers": [{"key": "h", "value": b"%d" % offset}] if offset % 2 else None,
        "partition": partition,
        "offset": offset,
        "timestamp": datetime.fromtimestamp(stamp_ms / 1000, UTC),
        "timestampType": 0,
    }


def write_as_tasks(
    storage: Storage, topic: str, records: Iterable[dict[str, Any]]
) -> Callable[[str], list[str]]:
    """Writes records as Spark's tasks do, as if there were one with all of them."""

    def write(place: str) -> list[str]:
        rows = [{**one, "topic": topic, "date": one["timestamp"].date()} for one in records]
        rows.sort(key=lambda one: (one["date"], one["partition"], one["offset"]))
        schema = pa.schema([*SCHEMA, ("topic", pa.string()), ("date", pa.date32())])
        batches = pa.Table.from_pylist(rows, schema).to_batches(max_chunksize=7)
        return write_files(batches, storage, place, ("topic", "date"))

    return write


def archive_written(
    layout: Layout, number: int, write: Callable[[str], list[str]]
) -> Written | None:
    """Archive a batch that `write` writes to the directory it is given."""
    place = f"{STAGING}/{secrets.token_hex(4)}"
    return archive_batch(layout, number, place, lambda: write(place))


class World:
    """An archive of the topic t with two partitions, of which batches read what they are told. In a
    store it has its checkpoint in a local directory."""

    def __init__(
        self,
        directory: Path | Layout,
        topic: str = "t",
        topic_id: str = "id-1",
        format: str = "parquet",
        checkpoint: Path | None = None,
    ) -> None:
        self.layout = directory if isinstance(directory, Layout) else Layout(directory)
        self.topic, self.topic_id = topic, topic_id
        self.ends: dict[str, int] = {}
        prepare(self.layout, format, checkpoint=None if checkpoint is None else str(checkpoint))
        self.checkpoint = checkpoint or self.layout.local(CHECKPOINT)

    @property
    def next_batch(self) -> int:
        return read_state(self.layout).batch + 1

    def plan(self, batch: int, ends: dict[int, int], begins: dict[int, int] | None = None) -> None:
        """The checkpoint as it is while a batch runs."""
        offsets = self.checkpoint / "offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        (self.checkpoint / "metadata").write_text('{"id":"q-1"}')
        named = {str(partition): end for partition, end in ends.items()}
        extra: dict[str, Any] = {"id": self.topic_id}
        if begins:
            extra["from"] = {str(partition): start for partition, start in begins.items()}
        line = json.dumps({"#fencepost": {self.topic: extra}, self.topic: named})
        (offsets / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{line}\n')
        if batch:
            commits = self.checkpoint / "commits"
            commits.mkdir(exist_ok=True)
            (commits / str(batch - 1)).write_text("v1\n{}\n")

    def archive(
        self,
        ranges: dict[int, tuple[int, int]],
        *,
        batch: int | None = None,
        skipped: Callable[[int], bool] = lambda offset: False,
        days: int | None = None,
        begins: dict[int, int] | None = None,
    ) -> Written | None:
        """Run a batch that reads ranges of offsets of partitions; some have no record."""
        number = self.next_batch if batch is None else batch
        self.plan(number, {partition: end for partition, (_, end) in ranges.items()}, begins)
        records = [
            record(partition, offset, days=days)
            for partition, (start, end) in ranges.items()
            for offset in range(start, end)
            if not skipped(offset)
        ]
        write = write_as_tasks(self.layout.storage, self.topic, records)
        return archive_written(self.layout, number, write)

    def records(self) -> list[dict[str, Any]]:
        """What a reader sees that lists directories and knows nothing else, by offsets."""
        storage = self.layout.storage
        rows: list[dict[str, Any]] = []
        for path in [one.path for one in storage.list() if re.fullmatch(LISTED, one.path)]:
            with storage.open_input(path) as file:
                rows += pq.ParquetFile(file).read().to_pylist()
        return sorted(rows, key=lambda row: (row["partition"], row["offset"]))

    def offsets(self) -> list[tuple[int, int]]:
        return [(row["partition"], row["offset"]) for row in self.records()]


def expected(ranges: dict[int, tuple[int, int]]) -> list[tuple[int, int]]:
    return [
        (p, offset) for p, (start, end) in sorted(ranges.items()) for offset in range(start, end)
    ]
